/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Status codes. Every function that can fail returns 0 (or a count) or one of these, negative.
 * Numbers are pinned: they cross the wire in ERROR messages and are never reused.
 */
#ifndef DIVERGE_ERROR_H
#define DIVERGE_ERROR_H

/* X(name, number, what happened) */
#define DIVERGE_ERRORS(X)                                                                          \
    X(EINVAL, -1, "invalid argument")                                                              \
    X(ENOMEM, -2, "out of memory")                                                                 \
    X(EIO, -3, "input/output error")                                                               \
    X(EPROTO, -4, "malformed message")                                                             \
    X(EVERSION, -5, "unsupported version")                                                         \
    X(ELIMIT, -6, "over a limit")                                                                  \
    X(ESTATE, -7, "not possible in this state")                                                    \
    X(ENOTFOUND, -8, "not found")                                                                  \
    X(EEXIST, -9, "already exists")                                                                \
    X(EBUSY, -10, "busy")                                                                          \
    X(EFULL, -11, "no space left, or read-only")                                                   \
    X(ECORRUPT, -12, "corrupt data")                                                               \
    X(EPERM, -13, "permission denied")                                                             \
    X(EUNAVAIL, -14, "daemon not reachable")                                                       \
    X(EAGAIN, -15, "try again")                                                                    \
    X(ECLOSED, -16, "closed")                                                                      \
    X(EUNSUPPORTED, -17, "not supported")                                                          \
    X(EINTERNAL, -18, "internal error")                                                            \
    X(EAMBIGUOUS, -19, "more than one match")                                                      \
    X(EGAP, -20, "a sequence number is missing")                                                   \
    X(EDROPPED, -21, "dropped: the wait bound was reached")

enum diverge_error {
#define X(name, number, text) DIVERGE_##name = (number),
    DIVERGE_ERRORS(X)
#undef X
};

#endif
