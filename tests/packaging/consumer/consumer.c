/* SPDX-License-Identifier: Apache-2.0 */
/* Plain C11. Every public header, a fingerprint, and a session that is switched off. */
#include <stdlib.h>
#include <string.h>

#include <diverge/diverge.h>
#include <diverge/error.h>
#include <diverge/fingerprint.h>
#include <diverge/macros.h>
#include <diverge/names.h>
#include <diverge/types.h>

int main(void)
{
    struct diverge_options options = DIVERGE_OPTIONS_INIT;
    struct diverge_session *session = NULL;
    if (diverge_session_open(&options, &session) != DIVERGE_ECLOSED || session)
        return 1;
    if (diverge_step(session, 0) != DIVERGE_ECLOSED)
        return 2;
    if (strcmp(diverge_version(), "0.1.0") != 0 || !diverge_strerror(DIVERGE_EPROTO))
        return 3;
    const float values[3] = {1, 2, 3};
    const int64_t sizes[1] = {3};
    struct diverge_view view = {.data = values, .dtype = DIVERGE_F32, .ndim = 1, .sizes = sizes};
    struct diverge_fingerprint fingerprint;
    if (diverge_fingerprint(&view, 0, &fingerprint) != 0 ||
        fingerprint.checksum != diverge_checksum_bytes(values, sizeof(values), 0))
        return 4;
    return 0;
}
