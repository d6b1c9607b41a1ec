// x * exp(i * angle) as pairs of floats, TILE elements at a time through queues of two buffers: the parts lie one behind the other and are
// put together by one Gather. PERIOD 0: an angle for each x, Cos and Sin on every tile. Otherwise the angles repeat after PERIOD elements,
// and cosines and sines of a tile are prepared once. The first `more` cores have `big` elements, the others `small`.
#include "kernel_operator.h"

using namespace AscendC;

class Polar {
public:
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR angle, GM_ADDR out, GM_ADDR tiling) {
        GlobalTensor<uint32_t> stated;
        stated.SetGlobalBuffer((__gm__ uint32_t*)tiling, 8);
        const uint32_t big = stated.GetValue(0), small = stated.GetValue(1), more = stated.GetValue(2), core = GetBlockIdx();
        const uint64_t first = core < more ? (uint64_t)core * big : (uint64_t)more * big + (uint64_t)(core - more) * small;
        const uint32_t count = core < more ? big : small;
        x_.SetGlobalBuffer((__gm__ float*)x + first, count);
        out_.SetGlobalBuffer((__gm__ float*)out + 2 * first, 2 * count);
        angle_.SetGlobalBuffer((__gm__ float*)angle + (PERIOD ? 0 : first), PERIOD ? PERIOD : count);
        pipe_.InitBuffer(in_, BUFFERS, 2 * TILE * sizeof(float));
        pipe_.InitBuffer(result_, BUFFERS, 2 * TILE * sizeof(float));
        pipe_.InitBuffer(parts_, 2 * TILE * sizeof(float));
        pipe_.InitBuffer(places_, 2 * TILE * sizeof(uint32_t));
        pipe_.InitBuffer(space_, 3 * TILE * sizeof(float));
        Places();
        if (PERIOD) Prepare();
        for (uint32_t at = 0; at < count;) {
            uint32_t length = count - at < TILE ? count - at : TILE;
            if (PERIOD && length >= PERIOD) length = length / (PERIOD ? PERIOD : 1) * PERIOD;
            Tile(at, length);
            at += length;
        }
    }

private:
    __aicore__ inline void Places() {
        LocalTensor<int32_t> places = places_.Get<uint32_t>().ReinterpretCast<int32_t>(),
                             half = parts_.Get<float>().ReinterpretCast<int32_t>();
        const int32_t count = 2 * TILE;
        CreateVecIndex(places, (int32_t)0, (uint32_t)count);
        ShiftRight(half, places, (int32_t)1, count);
        Muls(places, places, (int32_t)(4 * TILE), count);
        Muls(half, half, (int32_t)(4 - 8 * TILE), count);
        Add(places, places, half, count);
    }
    __aicore__ inline void Load(const LocalTensor<float>& to, const GlobalTensor<float>& from, uint32_t length) {
        DataCopyPad(to, from, DataCopyExtParams{1, length * (uint32_t)sizeof(float), 0, 0, 0}, DataCopyPadExtParams<float>{false, 0, 0, 0});
    }
    __aicore__ inline void Prepare() {
        LocalTensor<float> loaded = in_.AllocTensor<float>();
        Load(loaded, angle_, PERIOD);
        in_.EnQue(loaded);
        loaded = in_.DeQue<float>();
        LocalTensor<float> parts = parts_.Get<float>(), kept = space_.Get<float>();
        LocalTensor<uint8_t> space = parts_.Get<uint8_t>()[2 * PERIOD * sizeof(float)];
        Cos<float, false>(parts, loaded, space, PERIOD);
        Sin<float, false>(parts[PERIOD], loaded, space, PERIOD);
        in_.FreeTensor(loaded);
        for (uint32_t i = 0; i < TILE / (PERIOD ? PERIOD : 1); ++i) {
            DataCopy(kept[i * PERIOD], parts, PERIOD);
            DataCopy(kept[TILE + i * PERIOD], parts[PERIOD], PERIOD);
        }
    }
    __aicore__ inline void Tile(uint32_t at, uint32_t length) {
        LocalTensor<float> loaded = in_.AllocTensor<float>();
        Load(loaded, x_[at], length);
        if (!PERIOD) Load(loaded[TILE], angle_[at], length);
        in_.EnQue(loaded);
        loaded = in_.DeQue<float>();
        LocalTensor<float> parts = parts_.Get<float>();
        if (PERIOD) {
            const LocalTensor<float> kept = space_.Get<float>();
            Mul(parts, kept, loaded, length);
            Mul(parts[TILE], kept[TILE], loaded, length);
        } else {
            LocalTensor<uint8_t> space = space_.Get<uint8_t>();
            Cos<float, false>(parts, loaded[TILE], space, length);
            Sin<float, false>(parts[TILE], loaded[TILE], space, length);
            Mul(parts, parts, loaded, length);
            Mul(parts[TILE], parts[TILE], loaded, length);
        }
        in_.FreeTensor(loaded);
        LocalTensor<float> result = result_.AllocTensor<float>();
        Gather(result, parts, places_.Get<uint32_t>(), (uint32_t)0, 2 * length);
        result_.EnQue(result);
        result = result_.DeQue<float>();
        DataCopyPad(out_[2 * at], result, DataCopyExtParams{1, 2 * length * (uint32_t)sizeof(float), 0, 0, 0});
        result_.FreeTensor(result);
    }
    TPipe pipe_;
    TQue<TPosition::VECIN, BUFFERS> in_;
    TQue<TPosition::VECOUT, BUFFERS> result_;
    TBuf<TPosition::VECCALC> parts_, places_, space_;
    GlobalTensor<float> x_, angle_, out_;
};

extern "C" __global__ __aicore__ void polar(GM_ADDR x, GM_ADDR angle, GM_ADDR out, GM_ADDR tiling) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    Polar op;
    op.Run(x, angle, out, tiling);
}
