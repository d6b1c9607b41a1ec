// Communication between chips (Hccl) for a group of one rank: the server that executes the tasks is part of the launch, and with one rank
// every collective is a copy from the send to the receive buffer. What would need a second rank is an error. Pages: 高阶API/HCCL通信类/*.
#pragma once

#include "../kernel_operator.h"

namespace AscendC {

using HcclHandle = int8_t;
inline constexpr HcclHandle INVALID_HANDLE_ID = -1;
inline constexpr int32_t HCCL_SUCCESS = 0, HCCL_FAILED = -1;
// Group numbers for GetHcclContext, and the sizes of a server's context, as kernels write them. No page has the context's layout.
struct MemDetails {
    uint64_t size = 0, addr = 0;
    uint32_t key = 0;
};
struct IbVerbsData {
    MemDetails remoteInput, remoteOutput, localInput, localOutput;
};
inline constexpr uint32_t HCCL_MAX_RANK_NUM = 32;
inline constexpr uint32_t HCCL_GROUP_ID_0 = 0, HCCL_GROUP_ID_1 = 1;

enum HcclServerType { HCCL_SERVER_TYPE_AICPU = 0, HCCL_SERVER_TYPE_CCU, HCCL_SERVER_TYPE_END };
enum class CoreType : uint8_t { DEFAULT, ON_AIV, ON_AIC };
struct HcclServerConfig {
    CoreType type;
    int64_t blockId;
};
inline constexpr HcclServerConfig DEFAULT_CFG = {CoreType::DEFAULT, 0};
enum HcclDataType {
    HCCL_DATA_TYPE_INT8 = 0,
    HCCL_DATA_TYPE_INT16,
    HCCL_DATA_TYPE_INT32,
    HCCL_DATA_TYPE_FP16,
    HCCL_DATA_TYPE_FP32,
    HCCL_DATA_TYPE_INT64,
    HCCL_DATA_TYPE_UINT64,
    HCCL_DATA_TYPE_UINT8,
    HCCL_DATA_TYPE_UINT16,
    HCCL_DATA_TYPE_UINT32,
    HCCL_DATA_TYPE_FP64,
    HCCL_DATA_TYPE_BFP16,
    HCCL_DATA_TYPE_INT128,
    HCCL_DATA_TYPE_HIF8 = 14,
    HCCL_DATA_TYPE_FP8E4M3,
    HCCL_DATA_TYPE_FP8E5M2,
    HCCL_DATA_TYPE_FP8E8M0,
    HCCL_DATA_TYPE_RESERVED
};
enum HcclReduceOp { HCCL_REDUCE_SUM = 0, HCCL_REDUCE_PROD, HCCL_REDUCE_MAX, HCCL_REDUCE_MIN, HCCL_REDUCE_RESERVED };
enum class ScopeType { ALL = 0, QUEUE, BLOCK };

}  // namespace AscendC

namespace toprope {

inline constexpr Op kOpHcclPrepare{"Hccl.Prepare", Pipe::s, Kind::scalar, "scalar"};
// The server is no unit of the core; its copy stands in the pipe that carries the core's own writes to GM.
inline constexpr Op kOpHcclCommit{"Hccl.Commit", Pipe::mte3, Kind::copy, "scalar"};
inline constexpr uint32_t kHcclTasks = 63;  // of one group, as the pages of the Prepare functions say

inline uint32_t hccl_bytes(AscendC::HcclDataType type) {
    constexpr uint8_t kBytes[] = {1, 2, 4, 2, 4, 8, 8, 1, 2, 4, 8, 2, 16, 0, 1, 1, 1, 1};
    return static_cast<uint32_t>(type) < sizeof kBytes ? kBytes[type] : 0;
}
struct HcclTask {
    uint8_t *send, *receive;
    uint64_t bytes;
    uint32_t rounds, committed;
};

// What cores of a launch wait for: rounds that the core which talks to the server has had executed.
struct HcclWait {
    uint64_t rounds;
    AscendC::CoreType type;
    uint32_t block;
    char text[96];
};
inline bool talks_to_server(const Core& core, AscendC::CoreType type, uint32_t block) {
    if (type == AscendC::CoreType::ON_AIV && core.type != CoreType::aiv) return false;
    if (type == AscendC::CoreType::ON_AIC && core.type != CoreType::aic) return false;
    return block_index_of(core) == block;
}
inline bool hccl_rounds_done(void* argument) {
    auto& wait = *static_cast<HcclWait*>(argument);
    uint64_t most = 0;
    for (uint32_t i = 0; i < core_count(); ++i)
        if (talks_to_server(*core_at(i), wait.type, wait.block) && core_at(i)->registers[kRegHcclRounds] > most)
            most = core_at(i)->registers[kRegHcclRounds];
    std::snprintf(wait.text, sizeof wait.text, "Hccl.Wait: round %llu, but %llu were committed",
                  static_cast<unsigned long long>(wait.rounds), static_cast<unsigned long long>(most));
    return most >= wait.rounds;
}
// The slot flag in the trace through which the server's core lets core i pass; from the far end of those that IBSet uses.
inline uint32_t hccl_flag(uint32_t core) { return slot_flag(kSlotFlags - 1 - core % kSlotFlags); }

}  // namespace toprope

namespace AscendC {

//: Hccl | collectives of a group, executed by a server at Commit; here the group has one rank | all of HcclDataType | A2 A3 | HCCL使用说明
template <HcclServerType serverType = HcclServerType::HCCL_SERVER_TYPE_AICPU, const auto& config = DEFAULT_CFG>
class Hccl {
public:
    void InitV2(GM_ADDR, const void*) { ready_ = true; }
    void Init(GM_ADDR, void* = nullptr) { ready_ = true; }
    int32_t SetCcTilingV2(uint64_t) { return HCCL_SUCCESS; }
    int32_t SetCcTiling(void*) { return HCCL_SUCCESS; }

    //: .AllGather | every rank's sendBuf side by side in every recvBuf | all of HcclDataType | A2 A3 | AllGather
    template <bool commit = false>
    HcclHandle AllGather(GM_ADDR sendBuf, GM_ADDR recvBuf, uint64_t sendCount, HcclDataType dataType, uint64_t, uint8_t repeat = 1,
                         toprope::Site site = toprope::Site::here()) {
        return prepare<commit>("AllGather", sendBuf, recvBuf, sendCount, dataType, repeat, site);
    }
    //: .AllReduce | the sum, maximum or minimum of all ranks' sendBuf in every recvBuf | 8, 16 and 32 bit | A2 A3 | AllReduce
    template <bool commit = false>
    HcclHandle AllReduce(GM_ADDR sendBuf, GM_ADDR recvBuf, uint64_t count, HcclDataType dataType, HcclReduceOp op, uint8_t repeat = 1,
                         toprope::Site site = toprope::Site::here()) {
        return reduces("AllReduce", dataType, op, site) ? prepare<commit>("AllReduce", sendBuf, recvBuf, count, dataType, repeat, site)
                                                        : INVALID_HANDLE_ID;
    }
    //: .ReduceScatter | the reduction of all sendBuf, of which each rank gets its part | 8, 16 and 32 bit | A2 A3 | ReduceScatter
    template <bool commit = false>
    HcclHandle ReduceScatter(GM_ADDR sendBuf, GM_ADDR recvBuf, uint64_t recvCount, HcclDataType dataType, HcclReduceOp op, uint64_t,
                             uint8_t repeat = 1, toprope::Site site = toprope::Site::here()) {
        return reduces("ReduceScatter", dataType, op, site)
                   ? prepare<commit>("ReduceScatter", sendBuf, recvBuf, recvCount, dataType, repeat, site)
                   : INVALID_HANDLE_ID;
    }
    //: .AlltoAll | block j of rank i becomes block i of rank j | all of HcclDataType | A2 A3 | AlltoAll
    template <bool commit = false>
    HcclHandle AlltoAll(GM_ADDR sendBuf, GM_ADDR recvBuf, uint64_t dataCount, HcclDataType dataType, uint64_t = 0, uint8_t repeat = 1,
                        toprope::Site site = toprope::Site::here()) {
        return prepare<commit>("AlltoAll", sendBuf, recvBuf, dataCount, dataType, repeat, site);
    }
    //: .AlltoAllV | AlltoAll with counts and offsets for each rank | all of HcclDataType | A2 A3 | AlltoAllV
    template <bool commit = false>
    HcclHandle AlltoAllV(GM_ADDR sendBuf, void* sendCounts, void* sdispls, HcclDataType sendType, GM_ADDR recvBuf, void* recvCounts,
                         void* rdispls, HcclDataType recvType, uint8_t repeat = 1, toprope::Site site = toprope::Site::here()) {
        const uint64_t sent = *static_cast<uint64_t*>(sendCounts), received = *static_cast<uint64_t*>(recvCounts),
                       bytes = toprope::hccl_bytes(sendType);
        if (sendType != recvType || sent != received)
            toprope::report("hccl-argument", site, &toprope::kOpHcclPrepare,
                            "AlltoAllV: rank 0 sends %llu elements of type %d to itself, but receives %llu of type %d",
                            static_cast<unsigned long long>(sent), sendType, static_cast<unsigned long long>(received), recvType);
        return prepare<commit>("AlltoAllV", sendBuf + *static_cast<uint64_t*>(sdispls) * bytes,
                               recvBuf + *static_cast<uint64_t*>(rdispls) * bytes, sent, sendType, repeat, site);
    }
    //: .BatchWrite | writes to other ranks' windows; an error with one rank | any | A2 A3 | BatchWrite
    template <bool commit = false>
    HcclHandle BatchWrite(GM_ADDR, uint32_t itemNum, uint16_t = 0, toprope::Site site = toprope::Site::here()) {
        if (itemNum > 0) needs_ranks("BatchWrite", site);
        return INVALID_HANDLE_ID;
    }
    //: .AlltoAllvWrite | writes to other ranks' windows; an error with one rank | any | A2 A3 | AlltoAllvWrite
    template <bool commit = false>
    HcclHandle AlltoAllvWrite(GM_ADDR, GM_ADDR, GM_ADDR, uint64_t, uint64_t, toprope::Site site = toprope::Site::here()) {
        needs_ranks("AlltoAllvWrite", site);
        return INVALID_HANDLE_ID;
    }

    //: .Commit | lets the server execute a task, or its next round | any | A2 A3 | Commit
    void Commit(HcclHandle handleId, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        if (!known("Commit", handleId, site)) return;
        HcclTask& task = tasks_[handleId];
        if (task.committed == task.rounds) {
            report("hccl-commit-count", site, &kOpHcclCommit, "Hccl.Commit: task %d has %u rounds, and all are committed", handleId,
                   task.rounds);
            return;
        }
        const uint64_t shift = task.bytes * task.committed++;
        if (!talks_to_server(*self, config.type, static_cast<uint32_t>(config.blockId))) return;
        execute(task.send + shift, task.receive + shift, task.bytes, site);
        ++special_register(kRegHcclRounds);
        for (uint32_t i = 0; i < core_count(); ++i)
            if (core_at(i) != self) record(kSoftSet, site, kSlotMode << 8 | hccl_flag(i), 0);
    }
    //: .Wait | holds the core back until the next round of a task is done | any | A2 A3 | Wait
    int32_t Wait(HcclHandle handleId, toprope::Site site = toprope::Site::here()) {
        using namespace toprope;
        if (!known("Wait", handleId, site)) return HCCL_FAILED;
        HcclWait wait{++waited_, config.type, static_cast<uint32_t>(config.blockId), {}};
        wait_until(hccl_rounds_done, &wait, wait.text, site);
        if (!talks_to_server(*self, config.type, static_cast<uint32_t>(config.blockId))) record(kSoftWait, site, hccl_flag(self->index), 0);
        return HCCL_SUCCESS;
    }
    //: .Query | rounds of a task that are done | any | A2 A3 | Query
    int32_t Query(HcclHandle handleId, toprope::Site site = toprope::Site::here()) {
        return known("Query", handleId, site) ? static_cast<int32_t>(tasks_[handleId].committed) : -1;
    }
    //: .InterHcclGroupSync | orders this group's next task behind a task of another group | any | A2 A3 | InterHcclGroupSync
    void InterHcclGroupSync(int8_t, HcclHandle) {}  // tasks are executed in the order of Commit anyway
    //: .QueueBarrier | waits for the tasks of a queue | any | A2 A3 | QueueBarrier
    template <ScopeType type = ScopeType::ALL>
    void QueueBarrier(uint16_t) {}
    //: .Finalize | ends the group's work | any | A2 A3 | Finalize
    template <bool sync = true>
    void Finalize(toprope::Site site = toprope::Site::here()) {
        for (uint32_t i = 0; i < count_; ++i)
            if (tasks_[i].committed < tasks_[i].rounds)
                toprope::report("hccl-commit-count", site, &toprope::kOpHcclCommit,
                                "Hccl.Finalize: task %u has %u rounds, but only %u were committed", i, tasks_[i].rounds,
                                tasks_[i].committed);
        ready_ = false;
    }
    //: .GetWindowsInAddr | a rank's input window; there is none with one rank | any | A2 A3 | GetWindowsInAddr
    GM_ADDR GetWindowsInAddr(uint32_t, toprope::Site site = toprope::Site::here()) { return needs_ranks("GetWindowsInAddr", site); }
    //: .GetWindowsOutAddr | a rank's output window; there is none with one rank | any | A2 A3 | GetWindowsOutAddr
    GM_ADDR GetWindowsOutAddr(uint32_t, toprope::Site site = toprope::Site::here()) { return needs_ranks("GetWindowsOutAddr", site); }
    //: .GetRankId | this chip's number in the group: 0 | any | A2 A3 | GetRankId
    uint32_t GetRankId() const { return 0; }
    //: .GetRankDim | ranks of the group: 1 | any | A2 A3 | GetRankDim
    uint32_t GetRankDim() const { return 1; }
    //: .GetQueueNum | queues of the server: 1 | any | A2 A3 | GetQueueNum
    uint16_t GetQueueNum() const { return 1; }

private:
    template <bool commit>
    HcclHandle prepare(const char* name, GM_ADDR send, GM_ADDR receive, uint64_t count, HcclDataType type, uint8_t rounds,
                       toprope::Site site) {
        using namespace toprope;
        if (!ready_ || count_ == kHcclTasks || hccl_bytes(type) == 0 || rounds == 0) {
            report("hccl-argument", site, &kOpHcclPrepare,
                   "Hccl.%s: %s (initialised %d, %u tasks of at most %u, element type %d, repeat %u)", name,
                   ready_ ? "not a task" : "InitV2 has not been called", ready_, count_, kHcclTasks, type, rounds);
            return INVALID_HANDLE_ID;
        }
        record(kOpHcclPrepare, site, 1, 0);
        tasks_[count_] = {send, receive, count * hccl_bytes(type), rounds, 0};
        const auto handle = static_cast<HcclHandle>(count_++);
        if (commit) Commit(handle, site);
        return handle;
    }
    static bool reduces(const char* name, HcclDataType type, HcclReduceOp op, toprope::Site site) {
        const bool typed = type <= HCCL_DATA_TYPE_FP32 || type == HCCL_DATA_TYPE_BFP16,
                   operated = op == HCCL_REDUCE_SUM || op == HCCL_REDUCE_MAX || op == HCCL_REDUCE_MIN;
        if (!typed || !operated)
            toprope::report(
                "hccl-argument", site, &toprope::kOpHcclPrepare,
                "Hccl.%s: element type %d with operation %d; types are int8, int16, int32, half, float and bfloat16, operations "
                "sum, max and min",
                name, type, op);
        return typed && operated;
    }
    static void execute(uint8_t* send, uint8_t* receive, uint64_t bytes, toprope::Site site) {
        using namespace toprope;
        const uint64_t from = gm_address(send, bytes, kOpHcclCommit, site, false),
                       to = gm_address(receive, bytes, kOpHcclCommit, site, true);
        if (from == 0 || to == 0) return;
        Instr& instr = record(kOpHcclCommit, site, 1, 0);
        touch(instr, Space::gm, Mode::read, from, bytes);
        touch(instr, Space::gm, Mode::write, to, bytes);
        if (self->execute) std::memmove(receive, send, bytes);
    }
    bool known(const char* name, HcclHandle handle, toprope::Site site) const {
        if (handle >= 0 && static_cast<uint32_t>(handle) < count_) return true;
        toprope::report("hccl-argument", site, &toprope::kOpHcclCommit, "Hccl.%s: there is no task %d; %u were prepared", name, handle,
                        count_);
        return false;
    }
    static GM_ADDR needs_ranks(const char* name, toprope::Site site) {
        toprope::report("hccl-one-rank", site, &toprope::kOpHcclPrepare,
                        "Hccl.%s needs the window memory of other ranks, but the group here has one rank", name);
        return nullptr;
    }

    toprope::HcclTask tasks_[toprope::kHcclTasks] = {};
    uint32_t count_ = 0;
    uint64_t waited_ = 0;
    bool ready_ = false;
};

}  // namespace AscendC
