// REGIST_MATMUL_OBJ: numbers the objects of a kernel, gives them their tiling, and serves them on a cube core. Page: REGIST_MATMUL_OBJ.
#pragma once

#include "mailbox.h"

namespace toprope {

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

//: REGIST_MATMUL_OBJ | prepares Matmul objects; on a cube core that vector cores drive, serves them and ends the kernel there | - | A2 A3 310P | REGIST_MATMUL_OBJ
#define REGIST_MATMUL_OBJ(tpipe, workspace, ...) \
    if (toprope::regist_matmul(toprope::Site::here(), tpipe, workspace, __VA_ARGS__)) return
#define REGIST_CUBE_OBJ REGIST_MATMUL_OBJ
