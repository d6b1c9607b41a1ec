// TBuf: one buffer that is never queued; the author orders its users. Page: TBuf.
#pragma once

#include "buffers.h"

namespace AscendC {

using TBufHandle = toprope::BufferSlot*;

template <TPosition position = TPosition::LCM>
class TBuf {
public:
    static constexpr bool isTQue = false;
    static constexpr TPosition bufPosition = position;
    template <typename T>
    LocalTensor<T> Get(toprope::Site site = toprope::Site::here()) {
        return GetWithOffset<T>(slot_ != nullptr ? static_cast<uint32_t>(uint64_t{slot_->bytes} * 8 / toprope::kElementBits<T>) : 0, 0,
                                site);
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t elements, toprope::Site site = toprope::Site::here()) {
        return GetWithOffset<T>(elements, 0, site);
    }
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t elements, uint32_t offset_bytes, toprope::Site site = toprope::Site::here()) {
        LocalTensor<T> tensor;
        const auto bytes = static_cast<uint32_t>(toprope::bytes_of<T>(elements));
        if (slot_ == nullptr) {
            toprope::report("buffer-not-initialised", site, &toprope::kInitBuffer, "TBuf.Get before InitBuffer gave the buffer any memory");
            toprope::stop();
        }
        if (uint64_t{offset_bytes} + bytes > slot_->bytes)
            toprope::report("tensor-larger-than-buffer", site, &toprope::kInitBuffer,
                            "TBuf.Get asks for bytes [%u:%u], but InitBuffer gave %u bytes", offset_bytes, offset_bytes + bytes,
                            slot_->bytes);
        tensor.bind(slot_, slot_->address + offset_bytes, bytes, position);
        return tensor;
    }
    template <typename T>
    void FreeTensor(const LocalTensor<T>&) {}
    template <typename T>
    bool EnQue(const LocalTensor<T>&) {
        return true;
    }
    template <typename T>
    LocalTensor<T> AllocTensor() {
        return Get<T>();
    }
    template <typename T>
    LocalTensor<T> DeQue() {
        return Get<T>();
    }
    uint32_t GetBufLen() const { return slot_ != nullptr ? slot_->bytes : 0; }
    TBuffAddr GetBufferAddr(TBufHandle handle) const {
        return {handle->bytes, handle->address, handle, static_cast<uint8_t>(handle->position)};
    }
    void take_buffers(toprope::BufferSlot* slots, uint32_t) { slot_ = slots; }
    void InitStartBufHandle(TBufHandle first, uint8_t, uint32_t) { take_buffers(first, 1); }
    template <typename Pool>
    void InitBufHandle(Pool*, uint32_t index, TBufHandle first, uint32_t curPoolAddr, uint32_t len,
                       toprope::Site site = toprope::Site::here()) {
        toprope::place_slot(first[index], curPoolAddr, len, position, false, site);
    }

private:
    toprope::BufferSlot* slot_ = nullptr;
};

}  // namespace AscendC
