/* SPDX-License-Identifier: Apache-2.0 */
/* Recording files: the reader ends, stays within the file, and says the same when asked again. */

#include <stdlib.h>

#include <diverge/error.h>

#include "client/wire/recording.h"

static void require(int truth)
{
    if (!truth)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct dvg_recording recording;
    struct dvg_bytes bytes = {.data = data, .size = size};
    if (dvg_recording_init(&recording, bytes))
        return 0;
    struct dvg_frame frame;
    size_t at = recording.offset;
    int rc;
    while ((rc = dvg_recording_next(&recording, &frame)) == 1) {
        require(recording.offset > at && recording.offset <= size);
        require(frame.payload.data + frame.payload.size == data + recording.offset);
        at = recording.offset;
    }
    require(rc == 0 || rc == DIVERGE_ECORRUPT);
    require(rc != 0 || recording.torn == (recording.offset < size));
    require(dvg_recording_next(&recording, &frame) == rc);
    return 0;
}
