// Matmul and MatmulImpl: the object that kernels use. On a cube core (or a coupled one) it computes; on a vector core it sends requests to
// its cube core, where REGIST_MATMUL_OBJ serves them. Pages: Matmul-Kernel侧接口/*.md.
#pragma once

#include "../../api/data_copy_pad.h"
#include "engine.h"
#include "mailbox.h"

namespace toprope {

// What an object does in this build. `remote` asks the cube core; `absent`: cube-only code on a vector core does nothing.
enum class MatmulRole : uint8_t { here, remote, absent };

template <bool here_always, bool dual_master>
constexpr MatmulRole matmul_role() {
#ifdef ASCENDC_CUBE_ONLY
    constexpr bool cube_only = true;
#else
    constexpr bool cube_only = here_always;
#endif
#ifdef TOPROPE_AIV
    return cube_only ? MatmulRole::absent : MatmulRole::remote;
#else
    return (void)cube_only, MatmulRole::here;
#endif
}
// A cube core whose vector cores drive it runs no calls of its own.
template <bool here_always, bool dual_master>
bool matmul_is_driven() {
#if defined(TOPROPE_AIC) && !defined(ASCENDC_CUBE_ONLY)
    return !here_always && !dual_master && launch_info.mixed;
#else
    return false;
#endif
}

struct NoEngine {
    void init(const AscendC::tiling::TCubeTiling&, AscendC::TPipe*, Site) {}
    void serve(const MatmulJob&, Site) {}
    void finish(Site) {}
};

inline void overlay(AscendC::tiling::TCubeTiling&, const AscendC::MatmulConfig& c, int32_t& base_m, int32_t& base_n, int32_t& base_k) {
    if (!c.doBasicBlock && !c.doSpecialBasicBlock) return;
    base_m = static_cast<int32_t>(c.basicM);
    base_n = static_cast<int32_t>(c.basicN);
    base_k = static_cast<int32_t>(c.basicK);
}
inline void overlay_constants(AscendC::tiling::TCubeTiling& t, const AscendC::MatmulConfig& c) { overlay(t, c, t.baseM, t.baseN, t.baseK); }
inline void overlay_constants(AscendC::tiling::TCubeTiling& t, const AscendC::MatmulApiStaticTiling& s) {
    const auto set = [](int32_t& field, int32_t constant) {
        if (constant >= 0) field = constant;
    };
    set(t.usedCoreNum, s.usedCoreNum), set(t.M, s.M), set(t.N, s.N), set(t.Ka, s.Ka), set(t.Kb, s.Kb);
    set(t.singleCoreM, s.singleCoreM), set(t.singleCoreN, s.singleCoreN), set(t.singleCoreK, s.singleCoreK);
    set(t.baseM, s.baseM), set(t.baseN, s.baseN), set(t.baseK, s.baseK), set(t.depthA1, s.depthA1), set(t.depthB1, s.depthB1);
    set(t.stepM, s.stepM), set(t.stepN, s.stepN), set(t.stepKa, s.stepKa), set(t.stepKb, s.stepKb), set(t.isBias, s.isBias);
    set(t.iterateOrder, s.iterateOrder), set(t.dbL0A, s.dbL0A), set(t.dbL0B, s.dbL0B), set(t.dbL0C, s.dbL0C);
    if (t.M == 0) t.M = t.singleCoreM;
    if (t.N == 0) t.N = t.singleCoreN;
    if (t.Ka == 0) t.Ka = t.singleCoreK;
    if (t.Kb == 0) t.Kb = t.singleCoreK;
}

template <bool kHereAlways, class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE, const auto& MM_CFG, class MM_CB>
class MatmulObject {
    using A = typename A_TYPE::T;
    using B = typename B_TYPE::T;
    using C = typename C_TYPE::T;
    using Bias = typename BIAS_TYPE::T;
    static constexpr AscendC::MatmulConfig kConfig = matmul_config(MM_CFG);
    static constexpr bool kDual = kConfig.enableMixDualMaster;
    static constexpr MatmulRole kRole = matmul_role<kHereAlways, kDual>();
    static constexpr bool kToUb = space_of(C_TYPE::pos) == Space::ub;

public:
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
        set_local<A, A_TYPE::format>(job_.a, leftMatrix, isTransposeA, isTransposeA ? job_.single_k : job_.single_m,
                                     isTransposeA ? job_.single_m : job_.single_k, site);
    }
    void SetTensorB(const AscendC::LocalTensor<B>& rightMatrix, bool isTransposeB = false, Site site = Site::here()) {
        set_local<B, B_TYPE::format>(job_.b, rightMatrix, isTransposeB, isTransposeB ? job_.single_n : job_.single_k,
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
        static_assert(sizeof(T) == 0, "SetAntiQuantScalar: half x int8_t products are not supported yet");
    }
    template <class T>
    void SetAntiQuantVector(const T&, const T&) {
        static_assert(sizeof(T) == 0, "SetAntiQuantVector: half x int8_t products are not supported yet");
    }
    template <class T>
    void SetSparseIndex(const T&) {
        static_assert(sizeof(T) == 0, "SetSparseIndex: sparse products of a Matmul object are not supported yet; MmadWithSparse is");
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
        if (async_) return take_async(co2Local, enSequentialWrite, site);
        if (co2Local.space() == Space::l1) return fetch_l1(co2Local, enSequentialWrite, site);
        if (!require_remote("GetTensorC to UB", site)) return;
        uint8_t* at = begin_fetch(enAtomic, enSequentialWrite, site);
        wait_all(site);
        bring(co2Local, at, Blocks(t_, job_), block_, enSequentialWrite, site);
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
        bring(later_, later_from_, Blocks(t_, job_), block_, true, site);
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
        for (int32_t i = 0, n = Blocks(t_, job_).count(); i < n; ++i) bring(ubCmatrix, job_.c, Blocks(t_, job_), i, false, site);
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
        copy_in(ubCmatrix, job_.c, static_cast<uint64_t>(matrices) * static_cast<uint64_t>(job_.single_m * job_.single_n) * sizeof(C),
                site);
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
        copy_in(c, reinterpret_cast<uint8_t*>(part.pointer()),
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

    // -- what REGIST_MATMUL_OBJ needs --------------------------------------------------------------------------------------

    void set_number(uint8_t number) { job_.object = number; }
    static bool is_driven() { return matmul_is_driven<kHereAlways, kDual>(); }
    static void serve(void* object, const MatmulJob& job, const AscendC::tiling::TCubeTiling& tiling, Site site) {
        auto& me = *static_cast<MatmulObject*>(object);
        if (job.request == Request::init)
            me.engine_.init(tiling, AscendC::GetTPipePtr(), site);
        else
            me.engine_.serve(job, site);
    }
    static void finish(void* object, Site site) { static_cast<MatmulObject*>(object)->engine_.finish(site); }

private:
    using Engine = std::conditional_t<kRole == MatmulRole::here, MatmulEngine<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB>, NoEngine>;

    static bool idle() { return kRole == MatmulRole::absent || is_driven(); }
    void start(const AscendC::tiling::TCubeTiling& t, Site site) {
        t_ = t;
        const uint8_t number = job_.object;
        job_ = MatmulJob{};
        job_.object = number;
        SetOrgShape(t.M, t.N, t.Ka, t.Kb);
        SetTail(t.singleCoreM, t.singleCoreN, t.singleCoreK);
        if constexpr (kRole == MatmulRole::remote)
            if (!launch_info.mixed) {
                report("matmul-without-cube-core", site, nullptr,
                       "a Matmul object on a vector core needs its cube core, but this kernel runs on vector cores only: "
                       "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2) runs both");
                stop();
            }
    }
    void restart() {
        block_ = -1;
        async_ = false;
        ++job_.pass;
    }
    void set_gm(Operand2d& o, const void* pointer, bool turned) {
        o = Operand2d{};
        o.gm = static_cast<uint8_t*>(const_cast<void*>(pointer));
        o.turned = turned;
        restart();
    }
    void set_value(Operand2d& o, const void* value, size_t bytes) {
        o = Operand2d{};
        o.is_value = true;
        std::memcpy(&o.value, value, bytes);
        restart();
    }
    template <typename T, AscendC::CubeFormat format>
    void set_local(Operand2d& o, const AscendC::LocalTensor<T>& tensor, bool turned, int32_t rows, int32_t columns, Site site) {
        if (idle()) return;
        o = Operand2d{};
        o.turned = turned;
        if (tensor.space() == Space::l1) {
            o.in_l1 = true;
            o.l1 = tensor.address();
        } else {
            const int32_t r = format == AscendC::CubeFormat::NZ ? up(rows, 16) : rows,
                          c = format == AscendC::CubeFormat::NZ ? up(columns, static_cast<int32_t>(kK0<T>)) : columns;
            o.row_elements = c;
            o.gm = spill(tensor, static_cast<uint32_t>(r * c), site);
        }
        restart();
    }
    // UB to the workspace in GM, from where the cube core takes it.
    template <typename T>
    uint8_t* spill(const AscendC::LocalTensor<T>& tensor, uint32_t elements, Site site) {
        if (!require_remote("an operand in UB", site)) return nullptr;
        const uint64_t whole = (bytes_of<T>(elements) + 31) / 32 * 32,
                       bytes = tensor.length_bytes() != 0 && tensor.length_bytes() < whole ? tensor.length_bytes() : whole;
        uint8_t* at = client_.spill(bytes, site);
        AscendC::GlobalTensor<uint8_t> to;
        to.SetGlobalBuffer(at);
        order(AscendC::HardEvent::V_MTE3, site);
        order(AscendC::HardEvent::MTE2_MTE3, site);
        AscendC::DataCopy(to, tensor.template ReinterpretCast<uint8_t>(), static_cast<uint32_t>(bytes), site);
        order(AscendC::HardEvent::MTE3_V, site);
        return at;
    }
    static bool require_remote(const char* what, Site site) {
        if (kRole == MatmulRole::remote) return true;
        report("no-such-path", site, nullptr, "Matmul: %s needs a vector core; a cube core of this chip reaches UB only through GM", what);
        return false;
    }

    // ---- requests --------------------------------------------------------------------------------------------------------

    void send(uint32_t answers, Site site) {
        if constexpr (kRole == MatmulRole::here)
            engine_.serve(job_, site);
        else
            client_.post(job_, job_.request == Request::init || job_.request == Request::async ? &t_ : nullptr, answers, site);
    }
    void wait_all(Site site) {
        if constexpr (kRole == MatmulRole::remote) client_.wait(0, site);
    }
    void ask(Request request, bool partial, Site site) {
        job_.request = request;
        job_.block = block_;
        job_.partial = partial;
        send(request == Request::iterate ? 0 : 1, site);
        job_.partial = false;
    }
    void fetch(uint8_t* to, uint8_t atomic, bool sequential, Site site) {
        job_.c = to;
        job_.atomic = atomic;
        job_.sequential = sequential;
        ask(Request::get, false, site);
        job_.atomic = 0;
    }
    void fetch_l1(const AscendC::LocalTensor<C>& to, bool sequential, Site site) {
        job_.c_in_l1 = true;
        job_.c_local = to.address();
        fetch(nullptr, 0, sequential, site);
        job_.c_in_l1 = false;
        wait_all(site);
    }
    void whole(Request request, uint8_t atomic, bool sequential, Site site) {
        if constexpr (kDual && kRole == MatmulRole::remote) {  // the cube core makes the same call by itself
            client_.expect(1);
            return restart();
        }
        job_.request = request;
        job_.atomic = atomic;
        job_.sequential = sequential;
        send(1, site);
        job_.atomic = 0;
        if constexpr (kDual && kRole == MatmulRole::here)
            if (launch_info.mixed) answer_all(site);
        restart();
    }
    static void answer_all(Site site) {
        for (uint32_t sub = 0; sub < launch_info.ratio; ++sub) {
            const uint32_t index = vector_index(self->block, sub);
            ++mailbox_of(index)->answered;
            record(kSoftSet, Pipe::fix, site, kSlotMode << 8 | answer_flag(index), 0);
        }
    }
    void batch(uint32_t batch_a, uint32_t batch_b, uint32_t loops, bool sequential, uint32_t stride_a, uint32_t stride_b, uint8_t atomic,
               Site site) {
        job_.batch_a = batch_a;
        job_.batch_b = batch_b;
        job_.loops = loops;
        job_.stride_a = stride_a;
        job_.stride_b = stride_b;
        whole(Request::batch, atomic, sequential && t_.baseM >= job_.single_m && t_.baseN >= job_.single_n ? false : sequential, site);
        job_.pass += loops * (batch_a > batch_b ? batch_a : batch_b);
    }
    void begin_async(int32_t count, Site site) {
        job_.request = Request::async;
        job_.c = job_workspace_;
        job_.sequential = true;
        job_.block_bytes = static_cast<uint64_t>(t_.baseM) * static_cast<uint64_t>(t_.baseN) * sizeof(C);
        send(static_cast<uint32_t>(count), site);
        async_ = true;
        async_left_ = count;
    }
    // The next finished block of an asynchronous pass.
    uint8_t* next_async(Site site) {
        const int32_t count = Blocks(t_, job_).count();
        if (async_left_ > 0) --async_left_;
        if constexpr (kRole == MatmulRole::remote) client_.wait(static_cast<uint32_t>(async_left_), site);
        return job_workspace_ + static_cast<uint64_t>(count - 1 - async_left_) * job_.block_bytes;
    }
    void take_async(const AscendC::LocalTensor<C>& to, bool sequential, Site site) {
        const Blocks b(t_, job_);
        uint8_t* from = next_async(site);
        bring(to, from, b, b.count() - 1 - async_left_, true, site);
        (void)sequential;
    }

    // ---- results in UB -----------------------------------------------------------------------------------------------------

    void set_ub_rows() {
        job_.c_row_elements = job_.single_n;
        job_.c_nz_rows = job_.single_m;
    }
    uint8_t* room(int32_t rows, int32_t columns, Site site) {
        return client_.spill(static_cast<uint64_t>(up(rows, 16)) * static_cast<uint64_t>(up(columns, 32)) * sizeof(C), site);
    }
    // The cube core stores the block into the workspace as it shall lie in UB.
    uint8_t* begin_fetch(uint8_t atomic, bool sequential, Site site) {
        const bool tile = sequential;
        uint8_t* at = room(tile ? t_.baseM : job_.single_m, tile ? t_.baseN : job_.single_n, site);
        if (!sequential) set_ub_rows();
        fetch(at, atomic, sequential, site);
        job_.c_row_elements = job_.c_nz_rows = 0;
        return at;
    }
    void bring(const AscendC::LocalTensor<C>& to, uint8_t* from, const Blocks& b, int32_t block, bool sequential, Site site) {
        const int32_t mi = b.m_of(block), ni = b.n_of(block), m = b.rows(mi), n = b.columns(ni);
        constexpr auto size = static_cast<int64_t>(sizeof(C));
        int64_t pieces, piece, step, offset;
        if constexpr (C_TYPE::format == AscendC::CubeFormat::NZ) {
            const int64_t rows = up(sequential ? t_.baseM : job_.single_m, 16), c0 = sizeof(C) == 1 ? 32 : 16;
            pieces = up(n, static_cast<int32_t>(c0)) / c0;
            piece = m * c0 * size;
            step = rows * c0 * size;
            offset = sequential ? 0 : (ni * t_.baseN / c0 * rows + mi * t_.baseM) * c0 * size;
        } else {
            int64_t row = sequential ? t_.baseN : job_.single_n;
            if (C_TYPE::format == AscendC::CubeFormat::ND_ALIGN) row = up(static_cast<int32_t>(row), 32 / static_cast<int32_t>(size));
            pieces = m;
            piece = n * size;
            step = row * size;
            offset = sequential ? 0 : (int64_t{mi} * t_.baseM * row + int64_t{ni} * t_.baseN) * size;
            if (C_TYPE::format == AscendC::CubeFormat::ND_ALIGN) piece = (piece + 31) / 32 * 32;
        }
        if (step % 32 != 0 || piece % 32 != 0 || piece == step) {  // rows that UB cannot hold apart: all of them in one piece
            step = piece = (pieces - 1) * step + piece;
            pieces = 1;
        }
        if (offset % 32 != 0)
            report("misaligned-address", site, nullptr,
                   "Matmul: a block of C begins at byte %lld of the UB tensor, which is not a multiple of 32; use CubeFormat::ND_ALIGN or "
                   "aligned sizes",
                   static_cast<long long>(offset));
        copy_rows(to, from, offset, pieces, piece, step, site);
    }
    void copy_in(const AscendC::LocalTensor<C>& to, uint8_t* from, uint64_t bytes, Site site) {
        copy_rows(to, from, 0, 1, static_cast<int64_t>(bytes), static_cast<int64_t>(bytes), site);
    }
    void copy_rows(const AscendC::LocalTensor<C>& to, uint8_t* from, int64_t offset, int64_t pieces, int64_t piece, int64_t step,
                   Site site) {
        const AscendC::LocalTensor<uint8_t> ub = to.template ReinterpretCast<uint8_t>()[static_cast<uint32_t>(offset)];
        AscendC::GlobalTensor<uint8_t> gm;
        gm.SetGlobalBuffer(from + offset);
        order(AscendC::HardEvent::V_MTE2, site);  // the user's instructions on the tensor come first
        if (piece % 32 == 0 && step % 32 == 0)
            AscendC::DataCopy(ub, gm, AscendC::DataCopyParams(pieces, piece / 32, (step - piece) / 32, (step - piece) / 32), site);
        else
            AscendC::DataCopyPad(ub, gm, AscendC::DataCopyExtParams(1, piece, 0, 0, 0), AscendC::DataCopyPadExtParams<uint8_t>(), site);
        order(AscendC::HardEvent::MTE2_V, site);
        order(AscendC::HardEvent::MTE2_MTE3, site);
        client_.spill_was_read();
    }

    AscendC::tiling::TCubeTiling t_;
    MatmulJob job_;
    Engine engine_;
    MatmulClient client_;
    AscendC::LocalTensor<C> later_;
    uint8_t *job_workspace_ = nullptr, *later_from_ = nullptr;
    int32_t block_ = -1, async_left_ = 0;
    uint32_t batches_taken_ = 0;
    uint8_t sub_block_ = 0;
    bool async_ = false;
};

// ---- registration ------------------------------------------------------------------------------------------------------------

inline uint8_t number_objects(uint8_t number, ServedObject*, AscendC::TPipe*, Site) { return number; }
template <typename Object, typename... Rest>
uint8_t number_objects(uint8_t number, ServedObject* list, AscendC::TPipe* pipe, Site site, Object& object, Rest&&... rest);
template <typename Object, typename Tiling, typename... Rest>
uint8_t number_objects(uint8_t number, ServedObject* list, AscendC::TPipe* pipe, Site site, Object& object, Tiling* tiling,
                       Rest&&... rest) {
    object.set_number(number);
    list[number] = {&object, Object::serve, Object::finish};
    object.Init(reinterpret_cast<const AscendC::tiling::TCubeTiling*>(tiling), pipe, site);
    return number_objects(static_cast<uint8_t>(number + 1), list, pipe, site, rest...);
}
template <typename Object, typename... Rest>
uint8_t number_objects(uint8_t number, ServedObject* list, AscendC::TPipe* pipe, Site site, Object& object, Rest&&... rest) {
    object.set_number(number);
    list[number] = {&object, Object::serve, Object::finish};
    return number_objects(static_cast<uint8_t>(number + 1), list, pipe, site, rest...);
}

// True on a cube core that its vector cores drive, once they have finished: the kernel is then over for it.
template <typename Workspace, typename First, typename... Rest>
bool regist_matmul(Site site, AscendC::TPipe* pipe, Workspace, First& first, Rest&&... rest) {
    ServedObject list[16];
    const uint8_t count = number_objects(0, list, pipe, site, first, rest...);
    if (!First::is_driven()) return false;
    MatmulServer(list, count, site).run();
    return true;
}

}  // namespace toprope

namespace AscendC {

template <const auto& = CFG_NORM, typename...>
struct MatmulPolicy {};

//: Matmul | C = A x B + bias with buffers managed by the library; on a vector core the cube core computes | half bfloat16_t float int8_t int4b_t | A2 A3 | Matmul使用说明
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>,
          template <const auto&, typename...> class MATMUL_POLICY = MatmulPolicy>
class Matmul : public toprope::MatmulObject<false, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB> {};

//: MatmulImpl | as Matmul, always on the core that calls it | half bfloat16_t float int8_t int4b_t | A2 A3 | Matmul使用说明
template <class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE = C_TYPE, const auto& MM_CFG = CFG_NORM,
          class MM_CB = MatmulCallBackFunc<nullptr, nullptr, nullptr>,
          template <const auto&, typename...> class MATMUL_POLICY = MatmulPolicy>
class MatmulImpl : public toprope::MatmulObject<true, A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB> {};

}  // namespace AscendC

//: REGIST_MATMUL_OBJ | prepares Matmul objects; on a cube core that vector cores drive, serves them and ends the kernel there | - | A2 A3 310P | REGIST_MATMUL_OBJ
#define REGIST_MATMUL_OBJ(tpipe, workspace, ...) \
    if (toprope::regist_matmul(toprope::Site::here(), tpipe, workspace, __VA_ARGS__)) return
#define REGIST_CUBE_OBJ REGIST_MATMUL_OBJ

namespace matmul {
using namespace AscendC;
}
