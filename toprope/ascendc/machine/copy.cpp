// Long copies between memories of the machine. Part of runtime.cpp.
//
// The C library copies more than a few KiB by `rep movsb` on processors that promise it to be fast; a loop over registers, which also
// asks for what it will need a KiB later, takes half the time on some of them. Tiles of a large array that goes out to GM bypass the
// caches: it would not stay there until somebody reads it.

namespace {

constexpr uint64_t kAhead = 1024, kStreamedBytes = uint64_t{16} << 20;

#if defined(__AVX512F__)
inline void stream(uint8_t* to, RegisterWords x) { _mm512_stream_si512(reinterpret_cast<__m512i*>(to), (__m512i)x); }
#elif defined(__AVX__)
inline void stream(uint8_t* to, RegisterWords x) { _mm256_stream_si256(reinterpret_cast<__m256i*>(to), (__m256i)x); }
#elif defined(__SSE2__)
inline void stream(uint8_t* to, RegisterWords x) { _mm_stream_si128(reinterpret_cast<__m128i*>(to), (__m128i)x); }
#else
inline void stream(uint8_t* to, RegisterWords x) { store_vector(to, x); }
#endif

template <bool streamed>
void copy_lines(uint8_t* to, const uint8_t* from, uint64_t bytes) {
    constexpr uint64_t kLine = 64, kStep = 4 * kLine;
    uint64_t i = (kLine - reinterpret_cast<uintptr_t>(to) % kLine) % kLine;  // whole lines of the target from here on
    std::memcpy(to, from, i);
    for (; i + kStep <= bytes; i += kStep) {
        RegisterWords part[kStep / kRegisterBytes];
        for (uint64_t line = 0; line < kStep; line += kLine) {
            __builtin_prefetch(from + i + kAhead + line);
            if (!streamed) __builtin_prefetch(to + i + kAhead + line, 1);
        }
        for (uint64_t p = 0; p < kStep / kRegisterBytes; ++p) part[p] = load_vector<RegisterWords>(from + i + p * kRegisterBytes);
        for (uint64_t p = 0; p < kStep / kRegisterBytes; ++p)
            if (streamed)
                stream(to + i + p * kRegisterBytes, part[p]);
            else
                store_vector(to + i + p * kRegisterBytes, part[p]);
        asm volatile("" ::: "memory");  // or the compiler would find a memcpy in this loop
    }
    std::memcpy(to + i, from + i, bytes - i);
#if defined(__SSE2__)
    if (streamed) _mm_sfence();
#endif
}

}  // namespace

void copy_long(uint8_t* to, const uint8_t* from, uint64_t bytes, bool to_gm) {
    if (to < from + bytes && from < to + bytes) {
        std::memmove(to, from, bytes);
        return;
    }
    const GmBuffer* buffer = to_gm ? find_gm(to) : nullptr;
    (buffer != nullptr && buffer->bytes >= kStreamedBytes ? copy_lines<true> : copy_lines<false>)(to, from, bytes);
}
