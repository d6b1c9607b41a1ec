// File access of kernel unit tests, and log macros, under the names they use.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <string>
#include <vector>

#define INFO_LOG(format, ...) std::fprintf(stdout, "[INFO]  " format "\n", ##__VA_ARGS__)
#define WARN_LOG(format, ...) std::fprintf(stdout, "[WARN]  " format "\n", ##__VA_ARGS__)
#define ERROR_LOG(format, ...) std::fprintf(stdout, "[ERROR]  " format "\n", ##__VA_ARGS__)

// Reads a whole file; false if it is missing or larger than the buffer. fileSize becomes its size in bytes.
inline bool ReadFile(const std::string& filePath, size_t& fileSize, void* buffer, size_t bufferSize) {
    std::ifstream file(filePath, std::ios::binary | std::ios::ate);
    if (!file) {
        ERROR_LOG("there is no file %s", filePath.c_str());
        return false;
    }
    const auto size = static_cast<size_t>(file.tellg());
    if (size > bufferSize) {
        ERROR_LOG("%s holds %zu bytes, the buffer %zu", filePath.c_str(), size, bufferSize);
        return false;
    }
    file.seekg(0);
    file.read(static_cast<char*>(buffer), static_cast<std::streamsize>(size));
    fileSize = size;
    return true;
}
inline bool ReadFile(const std::string& filePath, size_t&& fileSize, void* buffer, size_t bufferSize) {
    return ReadFile(filePath, fileSize, buffer, bufferSize);
}
inline bool WriteFile(const std::string& filePath, const void* buffer, size_t size) {
    std::ofstream file(filePath, std::ios::binary);
    file.write(static_cast<const char*>(buffer), static_cast<std::streamsize>(size));
    return static_cast<bool>(file);
}
