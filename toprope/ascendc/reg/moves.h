// Loads and stores under the names of the macros TOPROPE_REG_LoadAlign and so on: included once for the documented names and once for those
// of older sources, so no #pragma once. In namespace AscendC::Reg.
//: Reg::LoadAlign | UB to registers from aligned addresses, with a distribution; also to masks | any | 950 | 基础API/Reg矢量计算/Reg数据搬入/连续对齐搬入（LoadAlign）.md
template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg, T* srcAddr, toprope::Site site = toprope::Site::here()) {
    toprope::load_aligned<dist>(dstReg, srcAddr, site);
}
template <typename T = DefaultType, PostLiteral postMode, LoadDist dist = LoadDist::DIST_NORM, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg, T*& srcAddr, int32_t postUpdateStride, toprope::Site site = toprope::Site::here()) {
    toprope::load_aligned<dist>(dstReg, srcAddr + (postMode == PostLiteral::POST_MODE_NORMAL ? postUpdateStride : 0), site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) srcAddr += postUpdateStride;
}
template <typename T = DefaultType, LoadDist dist = LoadDist::DIST_NORM, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg, T* srcAddr, AddrReg offset, toprope::Site site = toprope::Site::here()) {
    toprope::load_aligned<dist>(dstReg, srcAddr + offset.elements, site);
}
template <typename T = DefaultType, LoadDist dist, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg0, U& dstReg1, T* srcAddr, toprope::Site site = toprope::Site::here()) {
    toprope::load_two<dist>(dstReg0, dstReg1, srcAddr, site);
}
template <typename T = DefaultType, PostLiteral postMode, LoadDist dist, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg0, U& dstReg1, T*& srcAddr, int32_t postUpdateStride, toprope::Site site = toprope::Site::here()) {
    toprope::load_two<dist>(dstReg0, dstReg1, srcAddr + (postMode == PostLiteral::POST_MODE_NORMAL ? postUpdateStride : 0), site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) srcAddr += postUpdateStride;
}
template <typename T = DefaultType, LoadDist dist, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg0, U& dstReg1, T* srcAddr, AddrReg offset, toprope::Site site = toprope::Site::here()) {
    toprope::load_two<dist>(dstReg0, dstReg1, srcAddr + offset.elements, site);
}
// Eight blocks, a stride apart; a block without an active element is not read and becomes 0.
template <typename T = DefaultType, DataCopyMode dataMode, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg, T* srcAddr, uint32_t dataBlockStride, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(dataMode == DataCopyMode::DATA_BLOCK_COPY && U::trait.REG_NUM == 1, "LoadAlign by blocks: one register");
    const auto* in = reinterpret_cast<const uint8_t*>(srcAddr);
    uint32_t last = 0;
    bool wanted[8] = {};
    for (uint32_t b = 0; b < 8; ++b)
        for (uint32_t i = 0; i < 32; i += sizeof(T))
            if (mask.get(b * 32 + i)) {
                wanted[b] = true;
                last = b;
            }
    const uint32_t span = last * dataBlockStride * kBlockBytes + (wanted[last] ? kBlockBytes : 0);
    const bool good = reg_load(kRegLoadBlocks, srcAddr, span, kBlockBytes, wanted[last] ? last + 1 : 0,
                               int64_t{dataBlockStride} * kBlockBytes, 32, &dstReg, dtype_of<T>, site);
    for (uint32_t b = 0; b < 8; ++b)
        if (good && wanted[b])
            std::memcpy(dstReg.bytes + b * kBlockBytes, in + uint64_t{b} * dataBlockStride * kBlockBytes, kBlockBytes);
        else
            std::memset(dstReg.bytes + b * kBlockBytes, 0, kBlockBytes);
    dstReg.defined = true;
}
template <typename T = DefaultType, DataCopyMode dataMode, PostLiteral postMode, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadAlign(U& dstReg, T*& srcAddr, uint32_t dataBlockStride, uint32_t repeatStride, MaskReg& mask,
                           toprope::Site site = toprope::Site::here()) {
    T* at = srcAddr + (postMode == PostLiteral::POST_MODE_NORMAL ? repeatStride * toprope::kBlockBytes / sizeof(T) : 0);
    TOPROPE_REG_LoadAlign<T, dataMode>(dstReg, at, dataBlockStride, mask, site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) srcAddr += repeatStride * toprope::kBlockBytes / sizeof(T);
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
void TOPROPE_REG_LoadAlign(MaskReg& mask, T* srcAddr, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    constexpr uint32_t bytes = dist == MaskDist::DIST_US ? 16 : (dist == MaskDist::DIST_DS ? 64 : 32);
    const auto* in = reinterpret_cast<const uint8_t*>(srcAddr);
    const bool good = reg_load(kRegLoadAlign, srcAddr, bytes, bytes, 1, 0, bytes < 32 ? bytes : 32, &mask, dtype_of<T>, site);
    mask = {};
    for (uint32_t i = 0; good && i < kMaskBits; ++i) {
        const uint32_t bit = dist == MaskDist::DIST_US ? i / 2 : (dist == MaskDist::DIST_DS ? 2 * i : i);
        if ((in[bit / 8] >> (bit % 8)) & 1u) mask.set(i);
    }
}
template <typename T, PostLiteral postMode, MaskDist dist = MaskDist::DIST_NORM>
void TOPROPE_REG_LoadAlign(MaskReg& mask, T*& srcAddr, int32_t offset, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REG_LoadAlign<T, dist>(mask, srcAddr, site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) srcAddr = reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(srcAddr) + offset);
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
void TOPROPE_REG_LoadAlign(MaskReg& mask, T* srcAddr, AddrReg offset, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REG_LoadAlign<T, dist>(mask, srcAddr + offset.elements, site);
}

//: Reg::LoadUnAlign, Reg::LoadUnAlignPre | UB to a register from any address, after LoadUnAlignPre | any | 950 | 基础API/Reg矢量计算/Reg数据搬入/连续非对齐搬入（LoadUnAlign）.md
template <typename T>
void TOPROPE_REG_LoadUnAlignPre(UnalignReg& ureg, T* srcAddr, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegLoadUnAlignPre, site, 1, static_cast<uint32_t>(toprope::dtype_of<T>));
    ureg.next = srcAddr;
}
template <typename T>
void TOPROPE_REG_LoadUnAlignPre(UnalignReg& ureg, T* srcAddr, AddrReg& areg, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REG_LoadUnAlignPre(ureg, srcAddr + areg.elements, site);
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadUnAlign(U& dstReg, UnalignReg& ureg, T* srcAddr, toprope::Site site = toprope::Site::here()) {
    toprope::load_unaligned(dstReg, ureg, srcAddr, false, site);
    ureg.next = reinterpret_cast<const uint8_t*>(srcAddr) + U::kBytes;
}
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadUnAlign(U& dstReg, UnalignReg& ureg, T*& srcAddr, uint32_t postUpdateStride,
                             toprope::Site site = toprope::Site::here()) {
    static_assert(postMode == PostLiteral::POST_MODE_UPDATE, "LoadUnAlign: POST_MODE_UPDATE only");
    toprope::load_unaligned(dstReg, ureg, srcAddr, false, site);
    srcAddr += postUpdateStride;
    ureg.next = srcAddr;
}
template <typename T = DefaultType, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_LoadUnAlign(U& dstReg, UnalignReg& ureg, T*& srcAddr, AddrReg& areg, uint32_t,
                             toprope::Site site = toprope::Site::here()) {
    toprope::load_unaligned(dstReg, ureg, srcAddr + areg.elements, true, site);
}
//: Reg::StoreAlign | registers and masks to aligned addresses of UB, with a distribution | any | 950 | 基础API/Reg矢量计算/Reg数据搬出/连续对齐搬出（StoreAlign）.md
template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T* dstAddr, U& srcReg, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::store_aligned<dist>(dstAddr, srcReg, mask, site);
}
template <typename T = DefaultType, PostLiteral postMode, StoreDist dist = StoreDist::DIST_NORM, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T*& dstAddr, U& srcReg, int32_t postUpdateStride, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::store_aligned<dist>(dstAddr + (postMode == PostLiteral::POST_MODE_NORMAL ? postUpdateStride : 0), srcReg, mask, site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) dstAddr += postUpdateStride;
}
template <typename T = DefaultType, StoreDist dist = StoreDist::DIST_NORM, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T* dstAddr, U& srcReg, AddrReg offset, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    toprope::store_aligned<dist>(dstAddr + offset.elements, srcReg, mask, site);
}
template <typename T = DefaultType, StoreDist dist, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T* dstAddr, U& srcReg0, U& srcReg1, MaskReg&, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(stores_two(dist), "StoreAlign: two registers are stored with DIST_INTLV_B8, _B16 or _B32");
    constexpr uint32_t unit = dist == StoreDist::DIST_INTLV_B8 ? 1 : (dist == StoreDist::DIST_INTLV_B16 ? 2 : 4);
    require_defined(srcReg0, kRegStoreAlign, site);
    require_defined(srcReg1, kRegStoreAlign, site);
    uint32_t at;
    Instr* instr = reg_store(kRegStoreAlign, dstAddr, 512, 32, &srcReg0, dtype_of<T>, site, &at);
    if (instr == nullptr) return;
    instr->work = 2;
    auto* out = reinterpret_cast<uint8_t*>(dstAddr);
    for (uint32_t i = 0; i < kRegisterLength / unit; ++i) {
        std::memcpy(out + 2 * i * unit, srcReg0.bytes + i * unit, unit);
        std::memcpy(out + (2 * i + 1) * unit, srcReg1.bytes + i * unit, unit);
    }
    touch(*instr, Space::ub, Mode::write, at, 512);
}
template <typename T = DefaultType, StoreDist dist, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T* dstAddr, U& srcReg0, U& srcReg1, AddrReg offset, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REG_StoreAlign<T, dist>(dstAddr + offset.elements, srcReg0, srcReg1, mask, site);
}
template <typename T = DefaultType, DataCopyMode dataMode, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T* dstAddr, U& srcReg, uint32_t dataBlockStride, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(dataMode == DataCopyMode::DATA_BLOCK_COPY && U::trait.REG_NUM == 1, "StoreAlign by blocks: one register");
    require_defined(srcReg, kRegStoreBlocks, site);
    constexpr uint32_t per = kBlockBytes / sizeof(T);
    const auto active = [&](uint32_t i) { return mask.get(i * static_cast<uint32_t>(sizeof(T))); };
    uint32_t last = U::kCount;
    while (last != 0 && !active(last - 1)) --last;
    const uint32_t blocks = (last + per - 1) / per;
    const uint32_t span = blocks == 0 ? 0 : ((blocks - 1) * dataBlockStride + 1) * kBlockBytes;
    uint32_t at;
    Instr* instr = reg_store(kRegStoreBlocks, dstAddr, span, 32, &srcReg, dtype_of<T>, site, &at);
    if (instr == nullptr) return;
    auto* out = reinterpret_cast<uint8_t*>(dstAddr);
    for (uint32_t b = 0; b < blocks; ++b) {
        const uint32_t to = b * dataBlockStride * kBlockBytes;
        for (uint32_t i = 0; i < per; ++i)
            if (active(b * per + i)) std::memcpy(out + to + i * sizeof(T), srcReg.bytes + (b * per + i) * sizeof(T), sizeof(T));
        touch_stored(*instr, at + to, per, sizeof(T), [&](uint32_t i) { return active(b * per + i); });
    }
}
template <typename T = DefaultType, DataCopyMode dataMode, PostLiteral postMode, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreAlign(T*& dstAddr, U& srcReg, uint32_t dataBlockStride, uint32_t repeatStride, MaskReg& mask,
                            toprope::Site site = toprope::Site::here()) {
    T* at = dstAddr + (postMode == PostLiteral::POST_MODE_NORMAL ? repeatStride * toprope::kBlockBytes / sizeof(T) : 0);
    TOPROPE_REG_StoreAlign<T, dataMode>(at, srcReg, dataBlockStride, mask, site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) dstAddr += repeatStride * toprope::kBlockBytes / sizeof(T);
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
void TOPROPE_REG_StoreAlign(T* dstAddr, MaskReg& mask, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    constexpr uint32_t bytes = dist == MaskDist::DIST_PACK ? 16 : 32;
    uint32_t at;
    Instr* instr = reg_store(kRegStoreAlign, dstAddr, bytes, bytes, &mask, dtype_of<T>, site, &at);
    if (instr == nullptr) return;
    uint8_t out[32] = {};
    for (uint32_t i = 0; i < bytes * 8; ++i)
        if (mask.get(dist == MaskDist::DIST_PACK ? 2 * i : i)) out[i / 8] = static_cast<uint8_t>(out[i / 8] | 1u << (i % 8));
    std::memcpy(dstAddr, out, bytes);
    touch(*instr, Space::ub, Mode::write, at, bytes);
}
template <typename T, PostLiteral postMode, MaskDist dist = MaskDist::DIST_NORM>
void TOPROPE_REG_StoreAlign(T*& dstAddr, MaskReg& mask, int32_t offset, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REG_StoreAlign<T, dist>(dstAddr, mask, site);
    if (postMode == PostLiteral::POST_MODE_UPDATE) dstAddr = reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(dstAddr) + offset);
}
template <typename T, MaskDist dist = MaskDist::DIST_NORM>
void TOPROPE_REG_StoreAlign(T* dstAddr, MaskReg& mask, AddrReg offset, toprope::Site site = toprope::Site::here()) {
    TOPROPE_REG_StoreAlign<T, dist>(dstAddr + offset.elements, mask, site);
}

//: Reg::StoreUnAlign, Reg::StoreUnAlignPost | a register or mask to any address of UB; StoreUnAlignPost writes the last bytes | any | 950 | 基础API/Reg矢量计算/Reg数据搬出/连续非对齐搬出（StoreUnAlign）.md
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreUnAlign(T*& dstAddr, U& srcReg, UnalignReg& ureg, uint32_t postUpdateStride,
                              toprope::Site site = toprope::Site::here()) {
    toprope::store_unaligned(dstAddr, srcReg, postUpdateStride, site);
    ureg.pending = dstAddr + postUpdateStride;
    ureg.stored = site;
    if (postMode == PostLiteral::POST_MODE_UPDATE) dstAddr += postUpdateStride;
}
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreUnAlign(T*& dstAddr, U& srcReg, UnalignReg& ureg, AddrReg& areg, toprope::Site site = toprope::Site::here()) {
    toprope::store_unaligned(dstAddr + areg.elements, srcReg, U::kCount, site);
    ureg.pending = dstAddr + areg.elements + U::kCount;
    ureg.stored = site;
}
// As many elements as Squeeze has kept, behind those of before: the register AR holds where.
template <typename T = DefaultType, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE, typename U, toprope::IfRegister<U> = 0>
void TOPROPE_REG_StoreUnAlign(T* dstAddr, U& srcReg, UnalignReg& ureg, toprope::Site site = toprope::Site::here()) {
    auto& f = toprope::vector_function();
    toprope::store_unaligned(dstAddr + f.stored_bytes / sizeof(T), srcReg,
                             (f.squeezed_bytes - f.stored_bytes) / static_cast<uint32_t>(sizeof(T)), site);
    f.stored_bytes = f.squeezed_bytes;
    ureg.pending = reinterpret_cast<uint8_t*>(dstAddr) + f.stored_bytes;
    ureg.stored = site;
}
template <typename T>
void TOPROPE_REG_StoreUnAlign(T*& dstAddr, MaskReg& mask, UnalignReg& ureg, toprope::Site site = toprope::Site::here()) {
    using namespace toprope;
    static_assert(sizeof(T) == 2 || sizeof(T) == 4, "StoreUnAlign of a mask: 16-bit and 32-bit elements");
    constexpr uint32_t bytes = kMaskBits / sizeof(T) / 8;
    uint32_t at;
    Instr* instr = reg_store(kRegStoreUnAlign, dstAddr, bytes, bytes, &mask, dtype_of<T>, site, &at);
    if (instr != nullptr) {
        uint8_t out[16] = {};
        for (uint32_t i = 0; i < bytes * 8; ++i)
            if (mask.get(i * static_cast<uint32_t>(sizeof(T)))) out[i / 8] = static_cast<uint8_t>(out[i / 8] | 1u << (i % 8));
        std::memcpy(dstAddr, out, bytes);
        touch(*instr, Space::ub, Mode::write, at, bytes);
    }
    dstAddr = reinterpret_cast<T*>(reinterpret_cast<uint8_t*>(dstAddr) + bytes);
    ureg.pending = dstAddr;
    ureg.stored = site;
}
template <typename T, PostLiteral postMode = PostLiteral::POST_MODE_UPDATE>
void TOPROPE_REG_StoreUnAlignPost(T*& dstAddr, UnalignReg& ureg, int32_t postUpdateStride, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegStoreUnAlignPost, site, 1, static_cast<uint32_t>(toprope::dtype_of<T>));
    ureg.pending = nullptr;
    if (postMode == PostLiteral::POST_MODE_UPDATE) dstAddr += postUpdateStride;
}
template <typename T>
void TOPROPE_REG_StoreUnAlignPost(T*&, UnalignReg& ureg, AddrReg&, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegStoreUnAlignPost, site, 1, static_cast<uint32_t>(toprope::dtype_of<T>));
    ureg.pending = nullptr;
}
template <typename T>
void TOPROPE_REG_StoreUnAlignPost(T*, UnalignReg& ureg, toprope::Site site = toprope::Site::here()) {
    toprope::record(toprope::kRegStoreUnAlignPost, site, 1, static_cast<uint32_t>(toprope::dtype_of<T>));
    ureg.pending = nullptr;
}
