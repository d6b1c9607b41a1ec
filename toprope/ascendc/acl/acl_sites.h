// Tells the device library from which line a call is made: `#define aclrtFree(...) TOPROPE_AT(aclrtFree)(__VA_ARGS__)`. Define
// TOPROPE_NO_SITES to leave the names alone; calls are then known by their address.
#ifndef TOPROPE_ACL_SITES_H
#define TOPROPE_ACL_SITES_H

#ifdef __cplusplus
extern "C"
#endif
    void toprope_note_site(const char* file, int line);

#ifdef __cplusplus
template <typename F>
inline F* toprope_at(const char* file, int line, F* function) {
    toprope_note_site(file, line);
    return function;
}
#define TOPROPE_AT(function) toprope_at(__FILE__, __LINE__, function)
#else
#define TOPROPE_AT(function) (toprope_note_site(__FILE__, __LINE__), function)
#endif

#endif
