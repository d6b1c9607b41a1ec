// Matmul and MatmulImpl: the object that kernels use. On a cube core (or a coupled one) it computes; on a vector core it sends requests to
// its cube core, where REGIST_MATMUL_OBJ serves them. Pages: Matmul-Kernel侧接口/*.md.
#pragma once

#include "exchange.h"

namespace toprope {

// Preparing an object is scalar work; a tiling that is read at run time makes it longer (work = 1).
inline constexpr Op kOpMatmulInit{"Matmul::Init", Pipe::s, Kind::scalar, "matmul_init"};
// Starting a product anew, with its operands and its end.
inline constexpr Op kOpMatmulCall{"Matmul::IterateAll", Pipe::s, Kind::scalar, "matmul_call"};

template <bool kHereAlways, class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE, const auto& MM_CFG, class MM_CB,
          BlockChoice kChoice = BlockChoice::all>
class MatmulObject : public MatmulExchange<kHereAlways, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, kChoice> {
    using A = typename A_TYPE::T;
    using B = typename B_TYPE::T;
    using C = typename C_TYPE::T;
    using Bias = typename BIAS_TYPE::T;
    using Exchange = MatmulExchange<kHereAlways, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, kChoice>;
    using Exchange::ask;
    using Exchange::async_;
    using Exchange::batch;
    using Exchange::batches_taken_;
    using Exchange::begin_async;
    using Exchange::begin_fetch;
    using Exchange::block_;
    using Exchange::client_;
    using Exchange::engine_;
    using Exchange::fetch;
    using Exchange::fetch_l1;
    using Exchange::idle;
    using Exchange::job_;
    using Exchange::job_workspace_;
    using Exchange::kDual;
    using Exchange::kRole;
    using Exchange::later_;
    using Exchange::later_from_;
    using Exchange::next_async;
    using Exchange::require_remote;
    using Exchange::restart;
    using Exchange::room;
    using Exchange::send;
    using Exchange::set_gm;
    using Exchange::set_ub_rows;
    using Exchange::set_value;
    using Exchange::spill;
    using Exchange::start;
    using Exchange::sub_block_;
    using Exchange::t_;
    using Exchange::take_async;
    using Exchange::wait_all;
    using Exchange::whole;
    using typename Exchange::InUb;
    static constexpr bool kToUb = space_of(C_TYPE::pos) == Space::ub;

public:
    using Exchange::is_driven;
    using SrcT = A;
    using SrcAT = A;
    using SrcBT = B;
    using DstT = C;
    using BiasT = Bias;

    // -- setting up --------------------------------------------------------------------------------------------------------

    void Init(const AscendC::tiling::TCubeTiling* cubeTiling, AscendC::TPipe* tpipe = nullptr, Site site = Site::here()) {
        AscendC::tiling::TCubeTiling t;
        if (cubeTiling != nullptr) std::memcpy(static_cast<void*>(&t), cubeTiling, sizeof t);
        overlay_constants(t, MM_CFG);
        if (kRole == MatmulRole::absent || is_driven()) return;
        if (t.baseM <= 0 || t.baseN <= 0 || t.baseK <= 0) {
            report("matmul-tiling-invalid", site, nullptr,
                   "the TCubeTiling of a Matmul object has baseM=%d baseN=%d baseK=%d: each must be at least 1; was the tiling filled?",
                   t.baseM, t.baseN, t.baseK);
            stop();
        }
        record(kOpMatmulInit, site, cubeTiling != nullptr ? 1 : 0, 0);
        start(t, site);
        if constexpr (kRole == MatmulRole::here) engine_.init(t, tpipe != nullptr ? tpipe : AscendC::GetTPipePtr(), site);
        if constexpr (kRole == MatmulRole::remote) {
            if (kDual) return;
            job_.request = Request::init;
            send(0, site);
        }
    }
    void SetUserDefInfo(const uint64_t tilingPtr) { job_.user_info = tilingPtr; }
    void SetSelfDefineData(const uint64_t dataPtr) { job_.user_data = dataPtr; }
    void SetSubBlockIdx(uint8_t subBlockIdx) { sub_block_ = subBlockIdx; }
    uint8_t GetSubBlockIdx() const { return sub_block_; }
    template <class T>
    void SetWorkspace(AscendC::GlobalTensor<T>& addr) {
        job_workspace_ = reinterpret_cast<uint8_t*>(addr.pointer());
    }
    template <class T>
    void SetWorkspace(const T* addr, int) {
        job_workspace_ = reinterpret_cast<uint8_t*>(const_cast<T*>(addr));
    }
    void SetLocalWorkspace(const AscendC::LocalTensor<uint8_t>&) {}
    void SetHF32(bool enableHF32 = false, int32_t transMode = 0) {
        job_.hf32 = enableHF32;
        job_.hf32_zero = transMode == 1;
    }

    // -- matrices ----------------------------------------------------------------------------------------------------------

    void SetOrgShape(int orgM, int orgN, int orgK) { SetOrgShape(orgM, orgN, orgK, orgK); }
    void SetOrgShape(int orgM, int orgN, int orgKa, int orgKb, int orgKc = 0) {
        job_.m = orgM;
        job_.n = orgN;
        job_.ka = orgKa;
        job_.kb = orgKb;
        job_.kc = orgKc;
    }
    void SetSingleShape(int singleM, int singleN, int singleK) { SetTail(singleM, singleN, singleK); }
    void SetTail(int tailM = -1, int tailN = -1, int tailK = -1) {
        if (tailM != -1) job_.single_m = tailM;
        if (tailN != -1) job_.single_n = tailN;
        if (tailK != -1) job_.single_k = tailK;
        restart();
    }
    void SetTensorA(const AscendC::GlobalTensor<A>& gm, bool isTransposeA = false) { set_gm(job_.a, gm.pointer(), isTransposeA); }
    void SetTensorB(const AscendC::GlobalTensor<B>& gm, bool isTransposeB = false) { set_gm(job_.b, gm.pointer(), isTransposeB); }
    void SetTensorA(const AscendC::LocalTensor<A>& leftMatrix, bool isTransposeA = false, Site site = Site::here()) {
        this->template set_local<A, A_TYPE::format>(job_.a, leftMatrix, isTransposeA, isTransposeA ? job_.single_k : job_.single_m,
                                                    isTransposeA ? job_.single_m : job_.single_k, site);
    }
    void SetTensorB(const AscendC::LocalTensor<B>& rightMatrix, bool isTransposeB = false, Site site = Site::here()) {
        this->template set_local<B, B_TYPE::format>(job_.b, rightMatrix, isTransposeB, isTransposeB ? job_.single_n : job_.single_k,
                                                    isTransposeB ? job_.single_k : job_.single_n, site);
    }
    void SetTensorA(A aScalar) { set_value(job_.a, &aScalar, sizeof aScalar); }
    void SetTensorB(B bScalar) { set_value(job_.b, &bScalar, sizeof bScalar); }
    void SetBias(const AscendC::GlobalTensor<Bias>& biasGlobal) {
        job_.has_bias = true;
        job_.bias_in_l1 = false;
        job_.bias = reinterpret_cast<uint8_t*>(biasGlobal.pointer());
    }
    void SetBias(const AscendC::LocalTensor<Bias>& inputBias, Site site = Site::here()) {
        job_.has_bias = true;
        job_.bias_in_l1 = inputBias.space() == Space::l1;
        job_.bias_l1 = inputBias.address();
        if (!job_.bias_in_l1) job_.bias = spill(inputBias, static_cast<uint32_t>(job_.single_n), site);
    }
    void DisableBias() { job_.has_bias = false; }
    void ClearBias() { job_.has_bias = false; }
    void SetQuantScalar(const uint64_t quantScalar) {
        job_.quant = 1;
        job_.quant_scalar = quantScalar;
    }
    void SetQuantVector(const AscendC::GlobalTensor<uint64_t>& quantTensor) {
        job_.quant = 2;
        job_.quant_in_l1 = false;
        job_.quant_vector = reinterpret_cast<uint8_t*>(quantTensor.pointer());
    }
    void SetQuantVector(const AscendC::LocalTensor<uint64_t>& quantTensor) {
        job_.quant = 2;
        job_.quant_in_l1 = true;
        job_.quant_l1 = quantTensor.address();
    }
    template <class T>
    void SetAntiQuantScalar(const T, const T) {
        static_assert(sizeof(T) == 0,
                      "SetAntiQuantScalar: the chip multiplies half by int8_t on 310P only, whose Matmul objects are not here");
    }
    template <class T>
    void SetAntiQuantVector(const T&, const T&) {
        static_assert(sizeof(T) == 0,
                      "SetAntiQuantVector: the chip multiplies half by int8_t on 310P only, whose Matmul objects are not here");
    }
    void SetSparseIndex(const AscendC::GlobalTensor<uint8_t>& indexGlobal) {
        static_assert(is_sparse<B_TYPE>, "SetSparseIndex: the right matrix must be a SparseMatmulType");
        job_.sparse_index = const_cast<uint8_t*>(indexGlobal.GetPhyAddr());
    }
    template <class T>
    void SetTensorScaleA(const T&, bool = false) {
        static_assert(sizeof(T) == 0, "SetTensorScaleA: Ascend 950 only");
    }
    template <class T>
    void SetTensorScaleB(const T&, bool = true) {
        static_assert(sizeof(T) == 0, "SetTensorScaleB: Ascend 950 only");
    }

    // -- computing base block by base block ----------------------------------------------------------------------------------

    template <bool sync = true>
    bool Iterate(bool enPartialSum = false, Site site = Site::here()) {
        if (idle()) return false;
        const int32_t count = Blocks(t_, job_).count();
        if (block_ + 1 >= count) {
            restart();
            return false;
        }
        ++block_;
        if (!sync && kToUb && kRole == MatmulRole::remote && job_workspace_ != nullptr) {
            if (block_ == 0) begin_async(count, site);
            return true;
        }
        ask(Request::iterate, enPartialSum, site);
        return true;
    }
    template <bool sync = true, typename T>
    bool Iterate(bool enPartialSum, const AscendC::LocalTensor<T>& localCmatrix, Site site = Site::here()) {
        job_.c_in_l0 = true;
        job_.c_local = localCmatrix.address();
        const bool more = Iterate<sync>(enPartialSum, site);
        job_.c_in_l0 = false;
        return more;
    }
    template <bool sync = true>
    void GetTensorC(const AscendC::GlobalTensor<C>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, Site site = Site::here()) {
        if (idle()) return;
        fetch(reinterpret_cast<uint8_t*>(gm.pointer()), enAtomic, enSequentialWrite, site);
        if (sync) wait_all(site);
    }
    template <bool sync = true, bool doPad = false>
    void GetTensorC(const AscendC::LocalTensor<C>& co2Local, uint8_t enAtomic = 0, bool enSequentialWrite = false, uint32_t = 0,
                    uint32_t = 0, uint32_t = 0, uint32_t = 0, Site site = Site::here()) {
        if (idle()) return;
        if (async_) return take_async(co2Local, site);
        if (co2Local.space() == Space::l1) return fetch_l1(co2Local, enSequentialWrite, site);
        if (!require_remote("GetTensorC to UB", site)) return;
        uint8_t* at = begin_fetch(enAtomic, enSequentialWrite, site);
        wait_all(site);
        InUb::bring(client_, co2Local, at, Blocks(t_, job_), block_, enSequentialWrite, site);
    }
    template <bool sync = true>
    void GetTensorC(const AscendC::GlobalTensor<C>& gm, const AscendC::LocalTensor<C>& co2Local, uint8_t enAtomic = 0,
                    bool enSequentialWrite = false, Site site = Site::here()) {
        GetTensorC<false>(co2Local, 0, enSequentialWrite, 0, 0, 0, 0, site);
        GetTensorC<sync>(gm, enAtomic, enSequentialWrite, site);
    }
    // A block of the asynchronous pass, where it lies in the workspace.
    template <bool sync = true>
    AscendC::GlobalTensor<C> GetTensorC(uint8_t = 0, bool = false, Site site = Site::here()) {
        AscendC::GlobalTensor<C> block;
        if (idle()) return block;
        block.SetGlobalBuffer(reinterpret_cast<C*>(next_async(site)));
        return block;
    }
    void AsyncGetTensorC(const AscendC::LocalTensor<C>& c, Site site = Site::here()) {
        if (idle() || !require_remote("AsyncGetTensorC", site)) return;
        later_ = c;
        later_from_ = begin_fetch(0, true, site);
    }
    void WaitGetTensorC(Site site = Site::here()) {
        if (idle() || later_from_ == nullptr) return;
        wait_all(site);
        InUb::bring(client_, later_, later_from_, Blocks(t_, job_), block_, true, site);
        later_from_ = nullptr;
    }
    AscendC::MatrixOffset GetOffsetC() const {
        const Blocks b(t_, job_);
        const int32_t at = most(0, block_), mi = b.m_of(at), ni = b.n_of(at);
        return {mi * t_.baseM * job_.n + ni * t_.baseN, mi * t_.baseM, ni * t_.baseN, b.rows(mi), b.columns(ni)};
    }

    // -- computing everything ------------------------------------------------------------------------------------------------

    template <bool sync = true>
    void IterateAll(const AscendC::GlobalTensor<C>& gm, uint8_t enAtomic = 0, bool enSequentialWrite = false, bool = false,
                    bool fakeMsg = false, Site site = Site::here()) {
        if (idle() || fakeMsg) return;
        record(kOpMatmulCall, site, 0, 0);
        job_.c = reinterpret_cast<uint8_t*>(gm.pointer());
        whole(Request::all, enAtomic, enSequentialWrite, site);
        if (sync) wait_all(site);
    }
    template <bool sync = true>
    void IterateAll(const AscendC::LocalTensor<C>& ubCmatrix, uint8_t enAtomic = 0, Site site = Site::here()) {
        if (idle()) return;
        if (ubCmatrix.space() == Space::l1) {
            job_.c_in_l1 = true;
            job_.c_local = ubCmatrix.address();
            whole(Request::all, enAtomic, false, site);
            job_.c_in_l1 = false;
            return wait_all(site);
        }
        if (!require_remote("IterateAll to UB", site)) return;
        job_.c = room(job_.single_m, job_.single_n, site);
        set_ub_rows();
        whole(Request::all, enAtomic, false, site);
        wait_all(site);
        for (int32_t i = 0, n = Blocks(t_, job_).count(); i < n; ++i)
            InUb::bring(client_, ubCmatrix, job_.c, Blocks(t_, job_), i, false, site);
        job_.c_row_elements = job_.c_nz_rows = 0;
    }
    void WaitIterateAll(Site site = Site::here()) { wait_all(site); }
    void WaitIterateBatch(Site site = Site::here()) { wait_all(site); }
    void Wait(Site site = Site::here()) { wait_all(site); }

    // -- many small products -------------------------------------------------------------------------------------------------

    void SetBatchNum(int32_t batchA, int32_t batchB) {
        job_.batch_a = static_cast<uint32_t>(batchA);
        job_.batch_b = static_cast<uint32_t>(batchB);
    }
    template <bool sync = true, bool waitIterateBatch = false>
    void IterateBatch(const AscendC::GlobalTensor<C>& gm, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                      const uint32_t matrixStrideA = 0, const uint32_t matrixStrideB = 0, const uint32_t = 0, const bool = false,
                      const uint8_t enAtomic = 0, Site site = Site::here()) {
        if (idle()) return;
        job_.c = reinterpret_cast<uint8_t*>(gm.pointer());
        batch(batchA, batchB, 1, enSequentialWrite, matrixStrideA, matrixStrideB, enAtomic, site);
        if (sync) wait_all(site);
    }
    template <bool sync = true>
    void IterateBatch(const AscendC::LocalTensor<C>& ubCmatrix, uint32_t batchA, uint32_t batchB, bool enSequentialWrite,
                      const uint32_t matrixStrideA = 0, const uint32_t matrixStrideB = 0, const uint32_t = 0, const bool = false,
                      const uint8_t enAtomic = 0, Site site = Site::here()) {
        if (idle() || !require_remote("IterateBatch to UB", site)) return;
        const int32_t matrices = most(static_cast<int32_t>(batchA), static_cast<int32_t>(batchB));
        job_.c = room(job_.single_m * matrices, job_.single_n, site);
        batch(batchA, batchB, 1, enSequentialWrite, matrixStrideA, matrixStrideB, enAtomic, site);
        wait_all(site);
        InUb::copy(client_, ubCmatrix, job_.c,
                   static_cast<uint64_t>(matrices) * static_cast<uint64_t>(job_.single_m * job_.single_n) * sizeof(C), site);
    }
    // The form of cube-only kernels; a flag comes second.
    template <typename Flag, typename = std::enable_if_t<std::is_same_v<Flag, bool>>>
    void IterateBatch(const AscendC::GlobalTensor<C>& gm, Flag, uint8_t enAtomic, bool enSequentialWrite, const uint32_t matrixStrideA = 0,
                      const uint32_t matrixStrideB = 0, const uint32_t = 0, Site site = Site::here()) {
        if (idle()) return;
        job_.c = reinterpret_cast<uint8_t*>(gm.pointer());
        batch(job_.batch_a, job_.batch_b, 1, enSequentialWrite, matrixStrideA, matrixStrideB, enAtomic, site);
        wait_all(site);
    }
    template <bool sync = true, bool waitIterateBatch = false>
    void IterateNBatch(const uint32_t batchLoop, uint32_t batchA, uint32_t batchB, bool enSequentialWrite, const uint32_t matrixStrideA = 0,
                       const uint32_t matrixStrideB = 0, const uint32_t = 0, Site site = Site::here()) {
        if (idle()) return;
        job_.c = job_workspace_;
        batch(batchA, batchB, batchLoop, enSequentialWrite, matrixStrideA, matrixStrideB, 0, site);
        batches_taken_ = 0;
        if (sync) wait_all(site);
    }
    template <bool sync = true>
    AscendC::GlobalTensor<C> GetBatchTensorC(uint32_t batchA, uint32_t batchB, bool = false, Site site = Site::here()) {
        AscendC::GlobalTensor<C> part;
        if (idle()) return part;
        wait_all(site);
        part.SetGlobalBuffer(reinterpret_cast<C*>(job_workspace_) +
                             uint64_t{batches_taken_} * static_cast<uint64_t>(job_.m) * static_cast<uint64_t>(job_.n));
        batches_taken_ += batchA > batchB ? batchA : batchB;
        return part;
    }
    template <bool sync = true>
    void GetBatchTensorC(const AscendC::LocalTensor<C>& c, uint32_t batchA, uint32_t batchB, bool enSequentialWrite = false,
                         Site site = Site::here()) {
        if (idle() || !require_remote("GetBatchTensorC to UB", site)) return;
        const uint64_t matrices = batchA > batchB ? batchA : batchB;
        const AscendC::GlobalTensor<C> part = GetBatchTensorC<sync>(batchA, batchB, enSequentialWrite, site);
        InUb::copy(client_, c, reinterpret_cast<uint8_t*>(part.pointer()),
                   matrices * static_cast<uint64_t>(job_.m) * static_cast<uint64_t>(job_.n) * sizeof(C), site);
    }
    template <bool sync = true>
    AscendC::GlobalTensor<C> GetBatchC(uint32_t batchA, uint32_t batchB, bool enSequentialWrite = false, Site site = Site::here()) {
        return GetBatchTensorC<sync>(batchA, batchB, enSequentialWrite, site);
    }
    template <bool sync = true>
    void GetBatchC(const AscendC::LocalTensor<C>& c, uint32_t batchA, uint32_t batchB, bool enSequentialWrite = false,
                   Site site = Site::here()) {
        GetBatchTensorC<sync>(c, batchA, batchB, enSequentialWrite, site);
    }

    void End(Site site = Site::here()) {
        if (idle()) return;
        wait_all(site);
        if constexpr (kRole == MatmulRole::here) engine_.finish(site);
        restart();
    }
};

}  // namespace toprope

namespace AscendC {

//: Matmul | C = A x B + bias with buffers managed by the library; on a vector core the cube core computes | half bfloat16_t float int8_t int4b_t | A2 A3 | Matmul使用说明
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>,
          template <const auto&, typename...> class MATMUL_POLICY = MatmulPolicy>
class Matmul : public toprope::MatmulObject<false, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB,
                                            toprope::policy_blocks<MATMUL_POLICY<MM_CFG, void, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>>> {};

//: MatmulImpl | as Matmul, always on the core that calls it | half bfloat16_t float int8_t int4b_t | A2 A3 | Matmul使用说明
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>,
          template <const auto&, typename...> class MATMUL_POLICY = MatmulPolicy>
class MatmulImpl : public toprope::MatmulObject<true, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB,
                                                toprope::policy_blocks<MATMUL_POLICY<MM_CFG, void, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE>>> {};

}  // namespace AscendC

namespace matmul {
using namespace AscendC;
}
