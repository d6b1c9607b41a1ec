// Lists of tensors in GM. Layout: a 64-bit word with the byte offset of the pointers; for each tensor a word whose low half is its number
// of dimensions, followed by that many words of shape; then one pointer for each tensor. Pages: 辅助数据结构/ListTensorDesc.md,
// TensorDesc/*.md.
#pragma once

#include "../machine/vector.h"

namespace toprope {
inline constexpr Op kOpListTensor{"ListTensorDesc", Pipe::s, Kind::scalar, "scalar_load_gm"};
}

namespace AscendC {

//: TensorDesc | address and shape of one tensor of a list | any | A2 A3 310P | 辅助数据结构/TensorDesc/TensorDesc简介.md
template <class T>
class TensorDesc {
public:
    void SetShapeAddr(uint64_t* shapePtr) { shape_ = shapePtr; }
    uint64_t GetDim() const { return dims_; }
    uint64_t GetIndex() const { return index_; }
    uint64_t GetShape(uint32_t offset) const { return shape_ != nullptr && offset < dims_ ? shape_[offset] : 0; }
    T* GetDataPtr() const { return data_; }
    GlobalTensor<T> GetDataObj() const {
        GlobalTensor<T> tensor;
        tensor.SetGlobalBuffer(data_);
        return tensor;
    }
    void fill(T* data, uint64_t index, uint32_t dims, const uint64_t* shape) {
        data_ = data;
        index_ = index;
        dims_ = dims;
        if (shape_ != nullptr) std::memcpy(shape_, shape, dims * sizeof(uint64_t));
    }

private:
    T* data_ = nullptr;
    uint64_t* shape_ = nullptr;
    uint64_t index_ = 0, dims_ = 0;
};

//: ListTensorDesc | reads a list of tensors from GM | any | A2 A3 310P | 辅助数据结构/ListTensorDesc.md
class ListTensorDesc {
public:
    ListTensorDesc() = default;
    ListTensorDesc(void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff, toprope::Site site = toprope::Site::here()) {
        Init(data, length, shapeSize, site);
    }
    void Init(void* data, uint32_t length = 0xffffffff, uint32_t shapeSize = 0xffffffff, toprope::Site site = toprope::Site::here()) {
        words_ = static_cast<const uint64_t*>(data);
        size_ = 0;
        if (word(0, site) % 8 != 0 || (length != 0xffffffff && word(0, site) > length)) {
            toprope::report("list-tensor-malformed", site, &toprope::kOpListTensor,
                            "ListTensorDesc: the pointers' offset is %llu, which is no place in the list",
                            static_cast<unsigned long long>(word(0, site)));
            toprope::stop();
        }
        const uint64_t end = word(0, site) / 8;
        for (uint64_t at = 1; at < end; at += 1 + dims_at(at, site)) ++size_;
        if (shapeSize != 0xffffffff && shapeSize != size_)
            toprope::report("list-tensor-malformed", site, &toprope::kOpListTensor,
                            "ListTensorDesc: the list has %u tensors, %u were expected", size_, shapeSize);
    }
    uint32_t GetSize() const { return size_; }
    template <class T>
    T* GetDataPtr(uint32_t index, toprope::Site site = toprope::Site::here()) const {
        return in_list(index, site) ? reinterpret_cast<T*>(word(word(0, site) / 8 + index, site)) : nullptr;
    }
    template <class T>
    void GetDesc(TensorDesc<T>& desc, uint32_t index, toprope::Site site = toprope::Site::here()) const {
        if (!in_list(index, site)) return;
        uint64_t at = 1;
        for (uint32_t i = 0; i < index; ++i) at += 1 + dims_at(at, site);
        const uint32_t dims = dims_at(at, site);
        if (dims > 0) word(at + dims, site);
        desc.fill(GetDataPtr<T>(index, site), index, dims, words_ + at + 1);
    }

private:
    bool in_list(uint32_t index, toprope::Site site) const {
        if (index < size_) return true;
        toprope::report("list-tensor-malformed", site, &toprope::kOpListTensor,
                        "ListTensorDesc: tensor %u was asked for, but the list has %u", index, size_);
        return false;
    }
    uint64_t word(uint64_t index, toprope::Site site) const {
        using namespace toprope;
        const uint64_t device = gm_address(words_ + index, 8, kOpListTensor, site, false);
        if (device == 0) stop();
        touch(record(kOpListTensor, site, 1, static_cast<uint32_t>(Dtype::u64)), Space::gm, Mode::read, device, 8);
        return words_[index];
    }
    uint32_t dims_at(uint64_t index, toprope::Site site) const { return static_cast<uint32_t>(word(index, site)); }

    const uint64_t* words_ = nullptr;
    uint32_t size_ = 0;
};

}  // namespace AscendC
