// Matmul and MatmulImpl: the object that kernels use. On a cube core (or a coupled one) it computes; on a vector core it sends requests to
// its cube core, where REGIST_MATMUL_OBJ serves them. Pages: Matmul-Kernel侧接口/*.md.
#pragma once

#include "../../api/data_copy_pad.h"
#include "engine.h"
#include "policy.h"
#include "registration.h"
#include "roles.h"
#include "ub_exchange.h"

namespace toprope {

// Preparing an object is scalar work; a tiling that is read at run time makes it longer (work = 1).
inline constexpr Op kOpMatmulInit{"Matmul::Init", Pipe::s, Kind::scalar, "matmul_init"};

template <bool kHereAlways, class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE, const auto& MM_CFG, class MM_CB,
          BlockChoice kChoice = BlockChoice::all>
class MatmulObject {
    static_assert(kChoice != BlockChoice::unknown,
                  "Matmul: a policy class of the kernel's own replaces parts of the vendor's library, which are not here; the built-in "
                  "policies are MatmulPolicy, TrianUpperMatmulPolicy, TrianLowerMatmulPolicy and NBuffer33MatmulPolicy");
    using A = typename A_TYPE::T;
    using B = typename B_TYPE::T;
    using C = typename C_TYPE::T;
    using Bias = typename BIAS_TYPE::T;
    using InUb = ResultInUb<C_TYPE>;
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
    using Engine =
        std::conditional_t<kRole == MatmulRole::here, MatmulEngine<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, kChoice>, NoEngine>;

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
    void take_async(const AscendC::LocalTensor<C>& to, Site site) {
        const Blocks b(t_, job_);
        uint8_t* from = next_async(site);
        InUb::bring(client_, to, from, b, b.count() - 1 - async_left_, true, site);
    }

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
