// Where the machine has no nlohmann/json: JSON texts read, as unit tests of host code use that library. Reached behind all other folders.
#pragma once

#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace nlohmann {

class json {
public:
    enum class value_t { null, object, array, string, boolean, number_integer, number_unsigned, number_float, discarded };

    json() = default;
    json(const std::string& text) : type_(value_t::string), text_(text) {}
    static json parse(const std::string& text) {
        const char* at = text.c_str();
        json out = value(at);
        blanks(at);
        if (*at != 0) throw std::invalid_argument("JSON: text after the value");
        return out;
    }
    value_t type() const { return type_; }
    bool is_object() const { return type_ == value_t::object; }
    bool is_array() const { return type_ == value_t::array; }
    bool is_string() const { return type_ == value_t::string; }
    bool is_boolean() const { return type_ == value_t::boolean; }
    bool is_null() const { return type_ == value_t::null; }
    bool is_number_integer() const { return type_ == value_t::number_integer; }
    bool is_number() const { return is_number_integer() || type_ == value_t::number_float; }
    bool contains(const std::string& key) const { return members_.count(key) != 0; }
    size_t size() const { return is_object() ? members_.size() : elements_.size(); }
    json& operator[](const std::string& key) { return type_ = value_t::object, members_[key]; }
    const json& operator[](const std::string& key) const { return members_.at(key); }
    json& operator[](size_t index) { return elements_.at(index); }
    const json& at(const std::string& key) const { return members_.at(key); }
    template <typename T>
    T get() const {
        if constexpr (std::is_same_v<T, std::string>)
            return text_;
        else
            return static_cast<T>(std::is_floating_point_v<T> || type_ == value_t::number_float ? number_ : static_cast<double>(integer_));
    }
    operator std::string() const { return text_; }

private:
    static void blanks(const char*& at) {
        while (std::isspace(static_cast<unsigned char>(*at))) ++at;
    }
    static void expect(const char*& at, char wanted) {
        blanks(at);
        if (*at != wanted) throw std::invalid_argument(std::string("JSON: expected ") + wanted);
        ++at;
    }
    static std::string quoted(const char*& at) {
        expect(at, '"');
        std::string out;
        for (; *at != '"'; ++at) {
            if (*at == 0) throw std::invalid_argument("JSON: a text does not end");
            if (*at == '\\') ++at;
            out += *at;
        }
        return ++at, out;
    }
    static bool follows(const char*& at, char wanted) {
        blanks(at);
        return *at == wanted ? ++at, true : false;
    }
    static json value(const char*& at) {
        json out;
        blanks(at);
        if (follows(at, '{')) {
            out.type_ = value_t::object;
            if (follows(at, '}')) return out;
            do {
                blanks(at);
                const std::string key = quoted(at);
                expect(at, ':');
                out.members_[key] = value(at);
            } while (follows(at, ','));
            expect(at, '}');
        } else if (follows(at, '[')) {
            out.type_ = value_t::array;
            if (follows(at, ']')) return out;
            do out.elements_.push_back(value(at));
            while (follows(at, ','));
            expect(at, ']');
        } else if (*at == '"')
            out.type_ = value_t::string, out.text_ = quoted(at);
        else
            out.scalar(at);
        return out;
    }
    void scalar(const char*& at) {
        std::string word;
        while (std::isalnum(static_cast<unsigned char>(*at)) || *at == '-' || *at == '+' || *at == '.') word += *at++;
        if (word == "null") return;
        if (word == "true" || word == "false") return type_ = value_t::boolean, integer_ = word == "true", number_ = integer_, void();
        char* end = nullptr;
        number_ = std::strtod(word.c_str(), &end);
        if (word.empty() || *end != 0) throw std::invalid_argument("JSON: " + word + " is no value");
        const bool whole = word.find_first_of(".eE") == std::string::npos;
        type_ = whole ? value_t::number_integer : value_t::number_float;
        integer_ = whole ? std::strtoll(word.c_str(), nullptr, 10) : static_cast<int64_t>(number_);
    }

    value_t type_ = value_t::null;
    std::map<std::string, json> members_;
    std::vector<json> elements_;
    std::string text_;
    int64_t integer_ = 0;
    double number_ = 0;
};

}  // namespace nlohmann
