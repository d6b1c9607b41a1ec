// The atomic unit in front of GM: combines a run of elements with what GM holds. Part of runtime.cpp.

namespace {

template <typename T, typename F>
void accumulate_as(uint8_t* gm, const uint8_t* from, uint64_t bytes, F f) {
    for (uint64_t i = 0; i + sizeof(T) <= bytes; i += sizeof(T)) {
        T held, given;
        std::memcpy(static_cast<void*>(&held), gm + i, sizeof(T));
        std::memcpy(static_cast<void*>(&given), from + i, sizeof(T));
        const T result = static_cast<T>(f(held, given));
        std::memcpy(gm + i, static_cast<const void*>(&result), sizeof(T));
    }
}

// `Wide` holds the exact result of one operation, so that the element type rounds once; integers wrap.
template <typename T, typename Wide>
void accumulate_typed(uint8_t* gm, const uint8_t* from, uint64_t bytes) {
    switch (self->atomic) {
        case AtomicOp::add:
            return accumulate_as<T>(gm, from, bytes, [](T a, T b) { return T(Wide(a) + Wide(b)); });
        case AtomicOp::max:
            return accumulate_as<T>(gm, from, bytes, [](T a, T b) { return Wide(a) < Wide(b) ? b : a; });
        case AtomicOp::min:
            return accumulate_as<T>(gm, from, bytes, [](T a, T b) { return Wide(b) < Wide(a) ? b : a; });
        default:
            std::memcpy(gm, from, bytes);
    }
}

}  // namespace

void accumulate(uint8_t* gm, const uint8_t* from, uint64_t bytes) {
    switch (self->atomic_type) {
        case Dtype::f32:
            return accumulate_typed<float, float>(gm, from, bytes);
        case Dtype::f16:
            return accumulate_typed<half, float>(gm, from, bytes);
        case Dtype::bf16:
            return accumulate_typed<bfloat16_t, float>(gm, from, bytes);
        case Dtype::s8:
            return accumulate_typed<int8_t, int32_t>(gm, from, bytes);
        case Dtype::s16:
            return accumulate_typed<int16_t, int32_t>(gm, from, bytes);
        case Dtype::s32:
            return accumulate_typed<int32_t, int64_t>(gm, from, bytes);
        default:
            std::memcpy(gm, from, bytes);
    }
}
