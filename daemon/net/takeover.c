/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/net/takeover.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include <diverge/error.h>

#include "client/wire/frame.h"

enum {
    ANSWER_S = 10,
    ANSWER_MAX = 64 * 1024,
};

/* A connected descriptor, or EUNAVAIL, EPERM, EIO. */
static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t len = strlen(path);
    if (len >= sizeof(address.sun_path))
        return DIVERGE_EUNAVAIL;
    memcpy(address.sun_path, path, len);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return DIVERGE_EIO;
    const struct timeval limit = {.tv_sec = ANSWER_S};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int status = errno == ENOENT || errno == ECONNREFUSED || errno == ENOTSOCK ? DIVERGE_EUNAVAIL
                 : errno == EACCES || errno == EPERM                           ? DIVERGE_EPERM
                                                                               : DIVERGE_EIO;
    close(fd);
    return status;
}

bool takeover_is_live(const char *socket)
{
    int fd = connect_to(socket);
    if (fd >= 0)
        close(fd);
    /* One that may not be asked is somebody's. */
    return fd >= 0 || fd != DIVERGE_EUNAVAIL;
}

static int send_request(int fd)
{
    static const char json[] = "{\"command\":\"stop\",\"force\":true}";
    const struct dvg_control request = {
        .request = 1,
        .json = {(const uint8_t *)json, sizeof(json) - 1},
    };
    struct dvg_buffer out;
    dvg_buffer_init(&out, DVG_HELLO_MAX);
    int rc = dvg_control_encode(&out, DVG_MESSAGE_CONTROL_REQUEST, &request);
    if (!rc && send(fd, out.data, out.size, MSG_NOSIGNAL) != (ssize_t)out.size)
        rc = DIVERGE_EUNAVAIL;
    dvg_buffer_fini(&out);
    return rc;
}

static int read_verdict(struct dvg_bytes json)
{
    cJSON *answer = cJSON_ParseWithLength((const char *)json.data, json.size);
    int rc = cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(answer, "ok")) ? 0 : DIVERGE_EPROTO;
    cJSON_Delete(answer);
    return rc;
}

static int read_answer(int fd)
{
    uint8_t *bytes = malloc(ANSWER_MAX);
    size_t used = 0;
    int rc = bytes ? 0 : DIVERGE_ENOMEM;
    while (rc == 0) {
        ssize_t got = recv(fd, bytes + used, ANSWER_MAX - used, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            rc = got == 0 ? DIVERGE_EPROTO : DIVERGE_EAGAIN;
            break;
        }
        used += (size_t)got;
        struct dvg_frame frame;
        struct dvg_control answer;
        size_t size = 0;
        rc = dvg_frame_decode((struct dvg_bytes){bytes, used}, ANSWER_MAX - DVG_FRAME_HEADER,
                              &frame, &size);
        if (rc != 1)
            continue;
        rc = frame.type == DVG_MESSAGE_CONTROL_REPLY ? dvg_control_decode(frame.payload, &answer)
                                                     : DIVERGE_EPROTO;
        if (!rc)
            rc = read_verdict(answer.json);
        break;
    }
    free(bytes);
    return rc;
}

int takeover_ask_stop(const char *socket)
{
    int fd = connect_to(socket);
    if (fd < 0)
        return fd;
    int rc = send_request(fd);
    if (!rc)
        rc = read_answer(fd);
    close(fd);
    return rc;
}
