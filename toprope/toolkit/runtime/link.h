// The line to the recorder: a second process that checks and times what the program did, and that outlives the program's crash.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "state.h"

namespace toprope::device {

// Text of one JSON object, built member by member.
class Json {
public:
    explicit Json(const char* type) { text_ = std::string("{\"t\":\"") + type + "\""; }
    Json& add(const char* name, const std::string& value);
    Json& add(const char* name, const char* value) { return add(name, std::string(value == nullptr ? "" : value)); }
    Json& add(const char* name, double value);
    Json& add(const char* name, int64_t value);
    Json& add(const char* name, uint64_t value);
    Json& add(const char* name, int value) { return add(name, static_cast<int64_t>(value)); }
    Json& add(const char* name, uint32_t value) { return add(name, static_cast<uint64_t>(value)); }
    Json& add(const char* name, const Site& site);
    Json& raw(const char* name, const std::string& json);
    std::string done() const { return text_ + "}"; }
    static std::string quoted(const std::string& text);
    static std::string place(const Site& site);

private:
    std::string text_;
};

struct Piece {
    const void* data;
    uint64_t bytes;
};
void open_link();  // begins to start the recorder; does not wait
void send(const Json& message, const std::vector<Piece>& payload = {});
// Sends and waits for the answer, a line of text; empty when there is no recorder.
std::string ask(const Json& message, const std::vector<Piece>& payload = {}, std::string* answer_payload = nullptr);
void close_link();  // the program ends: waits until the recorder has said what it has to say
std::string prefix();
std::string prefix_or_die();

}  // namespace toprope::device
