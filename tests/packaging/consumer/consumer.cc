// SPDX-License-Identifier: Apache-2.0
// The same headers in C++17.
#include <diverge/diverge.h>
#include <diverge/macros.h>
#include <diverge/names.h>

#include <string>

int main()
{
    diverge_options options = DIVERGE_OPTIONS_INIT;
    diverge_session *session = nullptr;
    if (diverge_session_open(&options, &session) != DIVERGE_ECLOSED || session != nullptr)
        return 1;
    return std::string(diverge_version()) == "0.1.0" ? 0 : 2;
}
