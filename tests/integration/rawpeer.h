/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that speaks bytes: what a broken or hostile client would send. Blocking. */
#ifndef DVG_TESTS_INTEGRATION_RAWPEER_H
#define DVG_TESTS_INTEGRATION_RAWPEER_H

#include <stddef.h>
#include <stdint.h>

#include "client/wire/frame.h"

/* A connection to the daemon's socket; the test fails when there is none. */
int raw_connect(const char *socket);
/* -1 instead of failing. */
int raw_try_connect(const char *socket);

/* Sends a frame of zeros. */
void raw_send_frame(int fd, unsigned type, size_t payload);
/* Sends a HELLO of a stream whose ids are made of `seed`. */
void raw_send_hello(int fd, uint64_t seed, uint64_t epoch);
/* Sends a control request. */
void raw_send_control(int fd, const char *json);

/* Reads the next frame into `bytes`: its type, or 0 at the end of the connection. */
unsigned raw_read(int fd, uint8_t *bytes, size_t size, struct dvg_frame *ret);
/* Reads up to the ERROR that ends the connection and expects its status; then the end. Closes. */
void raw_expect_refused(int fd, int status);
/* Expects the end of the connection, whatever was said before. Closes. */
void raw_expect_end(int fd);
/* Reads the next frame, a CONTROL_REPLY, and gives its JSON as text. */
void raw_read_control(int fd, char *json, size_t size);

#endif
