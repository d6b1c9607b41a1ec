// A whole program: memory, copies, a stream and a launch through ACL, as it would be built for an NPU. The kernel is in add_custom.cpp;
// the build generates aclrtlaunch_add_custom.h for it, and so does `toprope run main.cpp`.
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclrtlaunch_add_custom.h"

#define CHECK(call)                                                  \
    if (const aclError error = (call); error != ACL_SUCCESS) {       \
        std::printf("%s:%d: error %d\n", __FILE__, __LINE__, error); \
        return 1;                                                    \
    }

int main() {
    constexpr uint32_t blocks = 8, length = blocks * 3000;
    constexpr size_t bytes = length * sizeof(float);
    std::vector<float> x(length), y(length), z(length);
    for (uint32_t i = 0; i < length; ++i) x[i] = 0.5f * i, y[i] = 100.0f - i;

    CHECK(aclInit(nullptr));
    CHECK(aclrtSetDevice(0));
    aclrtStream stream = nullptr;
    CHECK(aclrtCreateStream(&stream));

    void *xDevice, *yDevice, *zDevice;
    CHECK(aclrtMalloc(&xDevice, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&yDevice, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMalloc(&zDevice, bytes, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMemcpy(xDevice, bytes, x.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpy(yDevice, bytes, y.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE));

    CHECK(ACLRT_LAUNCH_KERNEL(add_custom)(blocks, stream, xDevice, yDevice, zDevice, length));
    CHECK(aclrtSynchronizeStream(stream));
    CHECK(aclrtMemcpy(z.data(), bytes, zDevice, bytes, ACL_MEMCPY_DEVICE_TO_HOST));

    uint32_t wrong = 0;
    for (uint32_t i = 0; i < length; ++i) wrong += z[i] != x[i] + y[i];
    std::printf("%u of %u sums are wrong\n", wrong, length);

    CHECK(aclrtFree(xDevice));
    CHECK(aclrtFree(yDevice));
    CHECK(aclrtFree(zDevice));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return wrong == 0 ? 0 : 1;
}
