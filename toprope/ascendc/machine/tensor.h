// LocalTensor and GlobalTensor: typed views of on-chip buffers and of GM.
#pragma once

#include "enums.h"

namespace toprope {

enum class BufferState : uint8_t { free, occupied, enqueued, dequeued };

// One buffer of a queue or TBuf; owned by the TPipe.
struct BufferSlot {
    uint32_t address = 0, bytes = 0;
    uint32_t queue = 0;
    uint32_t generation = 0;  // goes up at each FreeTensor, so that stale tensors are recognised
    AscendC::TPosition position = AscendC::TPosition::MAX;
    BufferState state = BufferState::free;
    bool managed = false;  // belongs to a queue (TBuf memory is never freed)
    uint8_t user_tag = 0;
    int16_t enqueue_event = -1, enqueue_id = -1;  // forward event set by EnQue, waited for by DeQue
    int16_t free_event = -1, free_id = -1;        // backward event set by FreeTensor, waited for by AllocTensor
    Site allocated = {"", 0};                     // the AllocTensor that gave it out last
};

inline constexpr Op kGetValue{"LocalTensor.GetValue", Pipe::s, Kind::scalar, "scalar_load"};
inline constexpr Op kSetValue{"LocalTensor.SetValue", Pipe::s, Kind::scalar, "scalar_store"};
inline constexpr Op kGlobalGetValue{"GlobalTensor.GetValue", Pipe::s, Kind::scalar, "scalar_load_gm"};
inline constexpr Op kGlobalSetValue{"GlobalTensor.SetValue", Pipe::s, Kind::scalar, "scalar_store_gm"};

template <typename E>
struct WholeTensor;  // an expression such as a + b, evaluated by assignment (api/)

}  // namespace toprope

namespace AscendC {

inline constexpr int32_t K_MAX_DIM = 8;
struct ShapeInfo {
    uint8_t shapeDim = 0, originalShapeDim = 0;
    uint32_t shape[K_MAX_DIM] = {}, originalShape[K_MAX_DIM] = {};
    DataFormat dataFormat = DataFormat::ND;
    ShapeInfo() = default;
    ShapeInfo(uint8_t dims, const uint32_t* sizes, DataFormat format = DataFormat::ND)
        : shapeDim(dims), originalShapeDim(dims), dataFormat(format) {
        for (int i = 0; i < dims && i < K_MAX_DIM; ++i) shape[i] = originalShape[i] = sizes[i];
    }
    ShapeInfo(uint8_t dims, const uint32_t* sizes, uint8_t original_dims, const uint32_t* original, DataFormat format)
        : shapeDim(dims), originalShapeDim(original_dims), dataFormat(format) {
        for (int i = 0; i < dims && i < K_MAX_DIM; ++i) shape[i] = sizes[i];
        for (int i = 0; i < original_dims && i < K_MAX_DIM; ++i) originalShape[i] = original[i];
    }
};

// Where a tensor lies, for kernels that place their tensors themselves. dataLen and bufferAddr are bytes.
struct TBuffAddr {
    uint32_t dataLen = 0, bufferAddr = 0;
    toprope::BufferSlot* bufferHandle = nullptr;
    uint8_t logicPos = static_cast<uint8_t>(TPosition::VECCALC);
};

template <typename T>
class LocalTensor {
public:
    using PrimType = T;

    LocalTensor() = default;
    // Static-tensor style: memory chosen by the author. dataSize counts elements. Page: LocalTensor constructor.
    LocalTensor(TPosition position, uint32_t address, uint32_t dataSize)
        : address_{static_cast<uint32_t>(toprope::bytes_of<T>(dataSize)), address, nullptr, static_cast<uint8_t>(position)} {}
    explicit LocalTensor(uint32_t address) : address_{0, address} {}

    // -- what the machine needs -------------------------------------------------------------------------------------------
    TPosition position() const { return static_cast<TPosition>(address_.logicPos); }
    toprope::Space space() const { return space_of(position()); }
    uint32_t address() const { return address_.bufferAddr; }
    uint32_t length_bytes() const { return address_.dataLen; }
    toprope::BufferSlot* slot() const { return address_.bufferHandle; }
    bool live() const {
        return address_.bufferHandle == nullptr || !address_.bufferHandle->managed ||
               (address_.bufferHandle->generation == generation_ && address_.bufferHandle->state != toprope::BufferState::free);
    }
    uint8_t* host() const { return toprope::self->memory[static_cast<int>(space())] + address_.bufferAddr; }
    void bind(toprope::BufferSlot* slot, uint32_t address, uint32_t bytes, TPosition position) {
        address_.bufferHandle = slot;
        address_.bufferAddr = address;
        address_.dataLen = bytes;
        address_.logicPos = static_cast<uint8_t>(position);
        generation_ = slot != nullptr ? slot->generation : 0;
    }

    // -- vendor interface -------------------------------------------------------------------------------------------------
    T GetValue(uint32_t index, toprope::Site site = toprope::Site::here()) const {
        if (!scalar_access(toprope::kGetValue, toprope::Mode::read, index, site)) return T{};
        if constexpr (std::is_same_v<T, int4b_t>) {
            const uint8_t byte = host()[index / 2];
            return T{static_cast<int8_t>(static_cast<int8_t>(index % 2 ? byte & 0xf0 : byte << 4) >> 4)};
        } else {
            T value;
            std::memcpy(&value, host() + index * sizeof(T), sizeof(T));
            return value;
        }
    }
    template <typename V>
    void SetValue(uint32_t index, V value, toprope::Site site = toprope::Site::here()) const {
        if (!scalar_access(toprope::kSetValue, toprope::Mode::write, index, site)) return;
        if constexpr (std::is_same_v<T, int4b_t>) {
            uint8_t& byte = host()[index / 2];
            const auto nibble = static_cast<uint8_t>(static_cast<int>(value) & 0xf);
            byte = static_cast<uint8_t>(index % 2 ? (byte & 0x0f) | (nibble << 4) : (byte & 0xf0) | nibble);
        } else {
            const T typed = static_cast<T>(value);
            std::memcpy(host() + index * sizeof(T), &typed, sizeof(T));
        }
    }
    // A plain reference. It counts as a read, or, if its element has changed when the next instruction begins, as a write.
    T& operator()(uint32_t index, toprope::Site site = toprope::Site::here()) const {
        static thread_local T outside;
        if (!scalar_access(toprope::kGetValue, toprope::Mode::read, index, site)) return outside;
        T* at = reinterpret_cast<T*>(host() + index * sizeof(T));
        toprope::referenced(at, sizeof(T), toprope::kSetValue);
        return *at;
    }
    LocalTensor operator[](uint32_t offset) const {
        LocalTensor r = *this;
        const auto shift = static_cast<uint32_t>(toprope::bytes_of<T>(offset));
        r.address_.bufferAddr += shift;
        r.address_.dataLen = address_.dataLen > shift ? address_.dataLen - shift : 0;
        return r;
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        LocalTensor<U> r;
        r.copy_view(address_.bufferHandle, address_.bufferAddr, address_.dataLen, position(), generation_);
        return r;
    }
    // Elements, as the vendor counts them.
    uint32_t GetSize() const { return address_.dataLen * 8 / toprope::kElementBits<T>; }
    uint32_t GetLength() const { return address_.dataLen; }
    void SetSize(uint32_t elements) { address_.dataLen = static_cast<uint32_t>(toprope::bytes_of<T>(elements)); }
    void SetBufferLen(uint32_t bytes) { address_.dataLen = bytes; }
    int32_t GetPosition() const { return static_cast<int32_t>(position()); }
    // A host pointer of the buffer; on the NPU, its on-chip address.
    T* GetPhyAddr() const { return reinterpret_cast<T*>(host()); }
    T* GetPhyAddr(uint32_t offset) const { return reinterpret_cast<T*>(host() + toprope::bytes_of<T>(offset)); }
    void SetAddrWithOffset(LocalTensor& from, uint32_t offset) { *this = from[offset]; }
    template <typename U>
    void SetAddrWithOffset(LocalTensor<U>& from, uint32_t offset) {
        copy_view(from.address_.bufferHandle, from.address_.bufferAddr + static_cast<uint32_t>(toprope::bytes_of<T>(offset)),
                  from.address_.dataLen, from.position(), from.generation_);
    }
    void SetAddr(const TBuffAddr& where) { bind(nullptr, where.bufferAddr, where.dataLen, static_cast<TPosition>(where.logicPos)); }
    // From the beginning of the memory of the tensor's position; elements as the vendor counts them.
    void InitBuffer(uint32_t offset_bytes, uint32_t elements) {
        bind(nullptr, offset_bytes, static_cast<uint32_t>(toprope::bytes_of<T>(elements)), position());
    }
    void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
    ShapeInfo GetShapeInfo() const { return shape_; }
    void SetUserTag(uint8_t tag) {
        if (address_.bufferHandle != nullptr) address_.bufferHandle->user_tag = tag;
    }
    toprope::BufferSlot* GetBufferHandle() const { return address_.bufferHandle; }
    uint8_t GetUserTag() const { return address_.bufferHandle != nullptr ? address_.bufferHandle->user_tag : 0; }

    template <typename E>
    LocalTensor& operator=(const toprope::WholeTensor<E>& expression) {
        expression.assign_to(*this);
        return *this;
    }

    // Where the tensor lies; public under the vendor's name, because kernels that place their tensors write to it.
    TBuffAddr address_;

    void copy_view(toprope::BufferSlot* slot, uint32_t address, uint32_t bytes, TPosition position, uint32_t generation) {
        address_.bufferHandle = slot;
        address_.bufferAddr = address;
        address_.dataLen = bytes;
        address_.logicPos = static_cast<uint8_t>(position);
        generation_ = generation;
    }

private:
    template <typename U>
    friend class LocalTensor;

    bool scalar_access(const toprope::Op& op, toprope::Mode mode, uint32_t index, toprope::Site site) const {
        using namespace toprope;
        const uint64_t begin = static_cast<uint64_t>(index) * kElementBits<T> / 8;
        const uint64_t size = sizeof(T);
        if (TOPROPE_UNLIKELY(!live()))
            report("use-after-free", site, &op, "%s on a tensor whose buffer has been given back with FreeTensor", op.name);
        if (TOPROPE_UNLIKELY(address_.bufferAddr + begin + size > self->bytes[static_cast<int>(space())])) {
            if (self->bytes[static_cast<int>(space())] != 0)
                report("on-chip-out-of-bounds", site, &op, "%s index %u is at byte %llu of %s, which has %u", op.name, index,
                       static_cast<unsigned long long>(address_.bufferAddr + begin), kSpaceNames[static_cast<int>(space())],
                       self->bytes[static_cast<int>(space())]);
            return false;
        }
        const BufferSlot* buffer = slot();
        const uint64_t end = address_.bufferAddr + begin + size;
        if (TOPROPE_UNLIKELY(buffer != nullptr && end > uint64_t{buffer->address} + buffer->bytes))
            report("buffer-out-of-bounds", site, &op, "%s index %u is at byte %llu of %s, but its buffer is [%u:%u]", op.name, index,
                   static_cast<unsigned long long>(end - size), kSpaceNames[static_cast<int>(space())], buffer->address,
                   buffer->address + buffer->bytes);
        else if (TOPROPE_UNLIKELY(begin + size > address_.dataLen))
            report("tensor-out-of-bounds", site, &op, "%s index %u, but the tensor has %u elements", op.name, index, GetSize());
        Instr& instr = record(op, site, 1, static_cast<uint32_t>(dtype_of<T>));
        touch(instr, space(), mode, address_.bufferAddr + begin, size);
        return true;
    }

    uint32_t generation_ = 0;
    ShapeInfo shape_;
};

template <typename T>
class GlobalTensor {
public:
    using PrimType = T;

    void SetGlobalBuffer(T* buffer, uint64_t bufferSize, toprope::Site site = toprope::Site::here()) {
        address_ = buffer;
        size_ = bufferSize;
        toprope::note_view(buffer, toprope::bytes_of<T>(bufferSize), toprope::dtype_of<T>, site);
    }
    void SetGlobalBuffer(T* buffer, toprope::Site site = toprope::Site::here()) { SetGlobalBuffer(buffer, 0, site); }
    const T* GetPhyAddr() const { return address_; }
    T* GetPhyAddr(uint64_t offset) const {
        return reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(address_) + toprope::bytes_of<T>(offset));
    }
    T* pointer() const { return address_; }
    uint64_t GetSize(toprope::Site site = toprope::Site::here()) const {
        if (TOPROPE_UNLIKELY(size_ == 0 && address_ != nullptr))
            toprope::warn("global-size-unknown", site, nullptr,
                          "GlobalTensor.GetSize is 0: SetGlobalBuffer was called without a size, or the tensor starts at its end");
        return size_;
    }
    void SetShapeInfo(const ShapeInfo& shape) { shape_ = shape; }
    ShapeInfo GetShapeInfo() const { return shape_; }
    template <CacheRwMode rw = CacheRwMode::RW>
    void SetL2CacheHint(CacheMode mode) {
        if (static_cast<int>(rw) & static_cast<int>(CacheRwMode::READ)) read_mode_ = mode;
        if (static_cast<int>(rw) & static_cast<int>(CacheRwMode::WRITE)) write_mode_ = mode;
    }
    bool bypasses_l2(bool writes) const { return (writes ? write_mode_ : read_mode_) == CacheMode::CACHE_MODE_DISABLE; }

    GlobalTensor operator[](uint64_t offset) const {
        GlobalTensor r = *this;
        r.address_ = GetPhyAddr(offset);
        r.size_ = size_ > offset ? size_ - offset : 0;
        return r;
    }
    T GetValue(uint64_t index, toprope::Site site = toprope::Site::here()) const {
        T value{};
        const T* at = GetPhyAddr(index);
        if (scalar_access(toprope::kGlobalGetValue, toprope::Mode::read, at, site)) std::memcpy(&value, at, sizeof(T));
        return value;
    }
    template <typename V>
    void SetValue(uint64_t index, V value, toprope::Site site = toprope::Site::here()) const {
        T* at = GetPhyAddr(index);
        const T typed = static_cast<T>(value);
        if (scalar_access(toprope::kGlobalSetValue, toprope::Mode::write, at, site)) std::memcpy(at, &typed, sizeof(T));
    }
    T& operator()(uint64_t index, toprope::Site site = toprope::Site::here()) const {
        static thread_local T outside;
        T* at = GetPhyAddr(index);
        if (!scalar_access(toprope::kGlobalGetValue, toprope::Mode::read, at, site)) return outside;
        toprope::referenced(at, sizeof(T), toprope::kGlobalSetValue);
        return *at;
    }

private:
    bool scalar_access(const toprope::Op& op, toprope::Mode mode, const T* at, toprope::Site site) const {
        using namespace toprope;
        const uint64_t device = gm_address(at, sizeof(T), op, site, mode != Mode::read);
        if (device == 0) return false;
        Instr& instr = record(op, site, 1, static_cast<uint32_t>(dtype_of<T>));
        touch(instr, Space::gm, mode, device, sizeof(T));
        return true;
    }

    T* address_ = nullptr;
    uint64_t size_ = 0;
    CacheMode read_mode_ = CacheMode::CACHE_MODE_NORMAL, write_mode_ = CacheMode::CACHE_MODE_NORMAL;
    ShapeInfo shape_;
};

}  // namespace AscendC
