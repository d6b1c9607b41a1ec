// What a Matmul object does behind its interface: its state, and how a request reaches the engine - by a call on a cube core, by a message
// from a vector core - and how a result comes back.
#pragma once

#include "../../api/data_copy_pad.h"
#include "engine.h"
#include "policy.h"
#include "registration.h"
#include "roles.h"
#include "ub_exchange.h"

namespace toprope {

template <bool kHereAlways, class A_TYPE, class B_TYPE, class C_TYPE, class BIAS_TYPE, const auto& MM_CFG, class MM_CB, BlockChoice kChoice>
class MatmulExchange {
    static_assert(kChoice != BlockChoice::unknown,
                  "Matmul: a policy class of the kernel's own replaces parts of the vendor's library, which are not here; the built-in "
                  "policies are MatmulPolicy, TrianUpperMatmulPolicy, TrianLowerMatmulPolicy and NBuffer33MatmulPolicy");

public:
    // -- what REGIST_MATMUL_OBJ needs --------------------------------------------------------------------------------------

    void set_number(uint8_t number) { job_.object = number; }
    static bool is_driven() { return matmul_is_driven<kHereAlways, kDual>(); }
    static void serve(void* object, const MatmulJob& job, const AscendC::tiling::TCubeTiling& tiling, Site site) {
        auto& me = *static_cast<MatmulExchange*>(object);
        if (job.request == Request::init) {
            // Both vector cores of a block announce the object; its buffers are set aside once for a tiling.
            if (me.served_ && std::memcmp(&me.served_tiling_, &tiling, sizeof tiling) == 0) return;
            me.served_ = true;
            me.served_tiling_ = tiling;
            me.engine_.init(tiling, AscendC::GetTPipePtr(), site);
        } else
            me.engine_.serve(job, site);
    }
    static void finish(void* object, Site site) { static_cast<MatmulExchange*>(object)->engine_.finish(site); }

protected:
    using C = typename C_TYPE::T;
    using InUb = ResultInUb<C_TYPE>;
    static constexpr bool kDual = matmul_config(MM_CFG).enableMixDualMaster;
    static constexpr MatmulRole kRole = matmul_role<kHereAlways, kDual>();
    using Engine =
        std::conditional_t<kRole == MatmulRole::here, MatmulEngine<A_TYPE, B_TYPE, C_TYPE, BIAS_TYPE, MM_CFG, MM_CB, kChoice>, NoEngine>;

    static bool idle() { return kRole == MatmulRole::absent || is_driven(); }
    void start(const AscendC::tiling::TCubeTiling& t, Site site) {
        t_ = t;
        const uint8_t number = job_.object;
        job_ = MatmulJob{};
        job_.object = number;
        job_.m = t.M;
        job_.n = t.N;
        job_.ka = t.Ka;
        job_.kb = t.Kb;
        job_.single_m = t.singleCoreM;
        job_.single_n = t.singleCoreN;
        job_.single_k = t.singleCoreK;
        restart();
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
        o.given = true;
        o.gm = static_cast<uint8_t*>(const_cast<void*>(pointer));
        o.turned = turned;
        restart();
    }
    void set_value(Operand2d& o, const void* value, size_t bytes) {
        o = Operand2d{};
        o.given = true;
        o.is_value = true;
        std::memcpy(&o.value, value, bytes);
        restart();
    }
    template <typename T, AscendC::CubeFormat format>
    void set_local(Operand2d& o, const AscendC::LocalTensor<T>& tensor, bool turned, int32_t rows, int32_t columns, Site site) {
        if (idle()) return;
        o = Operand2d{};
        o.given = true;
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

    // Pages SetTensorA, SetTensorB, Init: an object has a tiling and both operands before it computes, and a block before it is fetched.
    void require_order(Site site) const {
        const char* const missing = t_.baseM <= 0                                    ? "Init (REGIST_MATMUL_OBJ)"
                                    : !job_.a.given                                  ? "SetTensorA"
                                    : !job_.b.given                                  ? "SetTensorB"
                                    : job_.request == Request::get && job_.block < 0 ? "Iterate"
                                                                                     : nullptr;
        if (TOPROPE_UNLIKELY(missing != nullptr)) {
            report("matmul-call-order", site, nullptr, "this call of a Matmul object needs %s before it", missing);
            stop();
        }
    }
    void send(uint32_t answers, Site site) {
        if (job_.request != Request::init) require_order(site);
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

    AscendC::tiling::TCubeTiling t_, served_tiling_;
    MatmulJob job_;
    Engine engine_;
    MatmulClient client_;
    AscendC::LocalTensor<C> later_;
    uint8_t *job_workspace_ = nullptr, *later_from_ = nullptr;
    int32_t block_ = -1, async_left_ = 0;
    uint32_t batches_taken_ = 0;
    uint8_t sub_block_ = 0;
    bool async_ = false, served_ = false;
};

}  // namespace toprope
