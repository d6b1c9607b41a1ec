// JSON as text, written from left to right.
#pragma once

#include <cstdio>
#include <string>
#include <type_traits>

namespace toprope {
namespace host {

class Json {
public:
    Json& open(char bracket, const char* key = nullptr) {
        next(key);
        text_ += bracket;
        first_ = true;
        return *this;
    }
    Json& close(char bracket) {
        text_ += bracket;
        first_ = false;
        return *this;
    }
    Json& text(const char* key, const std::string& value) {
        next(key);
        quote(value);
        return *this;
    }
    template <class Number>
    Json& number(const char* key, Number value) {
        next(key);
        write(value);
        return *this;
    }
    template <class List>
    Json& numbers(const char* key, const List& list) {
        open('[', key);
        for (const auto& each : list) number(nullptr, each);
        return close(']');
    }
    const std::string& str() const { return text_; }

private:
    void next(const char* key) {
        if (!first_) text_ += ',';
        first_ = false;
        if (key == nullptr) return;
        quote(key);
        text_ += ':';
    }
    void quote(const std::string& value) {
        text_ += '"';
        for (unsigned char letter : value) {
            char escaped[8];
            if (letter == '"' || letter == '\\') {
                text_ += '\\';
                text_ += static_cast<char>(letter);
            } else if (letter < 0x20) {
                std::snprintf(escaped, sizeof escaped, "\\u%04x", letter);
                text_ += escaped;
            } else {
                text_ += static_cast<char>(letter);
            }
        }
        text_ += '"';
    }
    void write(double value) {
        char digits[40];
        std::snprintf(digits, sizeof digits, "%.17g", value);
        text_ += value != value || value - value != 0 ? "null" : digits;
    }
    template <class Integer>
    void write(Integer value) {
        text_ += std::to_string(
            static_cast<std::conditional_t<std::is_enum_v<Integer> || std::is_signed_v<Integer>, long long, unsigned long long>>(value));
    }
    std::string text_;
    bool first_ = true;
};

}  // namespace host
}  // namespace toprope
