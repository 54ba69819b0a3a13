/* SPDX-License-Identifier: Apache-2.0 */
/* The sender's other half: what is said to the daemon, and what its answers mean. */
#include <poll.h>
#include <string.h>

#include "client/lib/sender.h"

enum { OUT_TARGET = 256 * 1024 /* bytes to have ready for the socket */ };

bool dvg_sender_is_away(const struct dvg_sender *sender)
{
    return sender->link.state != DVG_LINK_UP || sender->read_only;
}

/* Nothing more is recorded; training goes on. */
void dvg_sender_stop_recording(struct dvg_sender *sender)
{
    struct diverge_session *session = sender->session;
    sender->dead = true;
    int open = DVG_SESSION_OPEN;
    atomic_compare_exchange_strong(&session->state, &open, DVG_SESSION_DEAD);
    dvg_link_drop(&sender->link, dvg_now_ns());
    pthread_mutex_lock(&session->mutex);
    for (uint32_t i = 0; i < session->n_lanes; i++)
        dvg_ring_interrupt(&session->lanes[i]->ring);
    pthread_mutex_unlock(&session->mutex);
}

/* Refused for good, for a reason that reconnecting does not change. */
static void refuse(struct dvg_sender *sender, int status, const char *text, size_t size)
{
    sender->status = status;
    if (size >= sizeof(sender->refusal))
        size = sizeof(sender->refusal) - 1;
    memcpy(sender->refusal, text, size);
    sender->refusal[size] = '\0';
    dvg_warn(sender->session, DVG_WARN_REFUSED, "the daemon does not record this run: %s%s%s",
             diverge_strerror(status), size ? ": " : "", sender->refusal);
    /* What was recorded is not thrown away: a file of it can be looked into. */
    if (sender->outbox.first && sender->outbox.spool_usable)
        dvg_outbox_spill(&sender->outbox);
    dvg_sender_stop_recording(sender);
}

/* The daemon's own trouble, which passes: PROTOCOL.md section 6. */
static bool is_temporary(int status)
{
    return status == DIVERGE_EUNAVAIL || status == DIVERGE_EAGAIN || status == DIVERGE_EBUSY ||
           status == DIVERGE_EFULL || status == DIVERGE_ENOMEM || status == DIVERGE_EIO ||
           status == DIVERGE_EINTERNAL;
}

static void lose(struct dvg_sender *sender)
{
    dvg_link_drop(&sender->link, dvg_now_ns());
    sender->read_only = false;
    if (!sender->outbox.recording && sender->outbox.spool_usable)
        dvg_outbox_spill(&sender->outbox);
}

/* ---- what comes in --------------------------------------------------------------------------- */

static void on_welcome(struct dvg_sender *sender, struct dvg_bytes payload)
{
    struct diverge_session *session = sender->session;
    struct dvg_welcome welcome;
    int rc = dvg_welcome_decode(payload, &welcome);
    if (!rc && sender->link.state != DVG_LINK_GREETING)
        rc = DIVERGE_EPROTO;
    if (!rc && welcome.max_frame < DVG_PAYLOAD_MAX)
        rc = DIVERGE_ELIMIT; /* it takes smaller frames than are made here */
    if (!rc)
        rc = dvg_outbox_resume(&sender->outbox, welcome.committed_seq);
    if (rc) {
        refuse(sender, rc, "", 0);
        return;
    }
    dvg_link_greeted(&sender->link);
    sender->cursor = (struct dvg_cursor){0};
    sender->read_only = welcome.read_only;
    atomic_store(&session->max_records, welcome.max_segment_records);
    pthread_mutex_lock(&session->mutex);
    size_t size = welcome.run_name.size < DVG_NAME_MAX ? welcome.run_name.size : DVG_NAME_MAX;
    memcpy(session->run_name, welcome.run_name.data, size);
    session->run_name[size] = '\0';
    memcpy(session->run_id, welcome.run_id, sizeof(session->run_id));
    pthread_mutex_unlock(&session->mutex);
}

static void warn_full(struct dvg_sender *sender, struct dvg_bytes text)
{
    dvg_warn(sender->session, DVG_WARN_LINK, "the daemon cannot store now (%.*s); records wait",
             (int)(text.size & 0xfff), (const char *)text.data);
}

static void on_error(struct dvg_sender *sender, struct dvg_bytes payload)
{
    struct dvg_error_message error;
    if (dvg_error_decode(payload, &error)) {
        refuse(sender, DIVERGE_EPROTO, "", 0);
        return;
    }
    bool again = error.status == DIVERGE_EGAP && sender->gaps++ == 0;
    if (error.fatal && error.status == DIVERGE_EFULL)
        warn_full(sender, error.text);
    if (error.fatal && (is_temporary(error.status) || again)) {
        lose(sender);
    } else if (error.fatal) {
        refuse(sender, error.status, (const char *)error.text.data, error.text.size);
    } else {
        dvg_warn(sender->session, DVG_WARN_LINK, "the daemon says: %s: %.*s",
                 diverge_strerror(error.status), (int)(error.text.size & 0xfff),
                 (const char *)error.text.data);
    }
}

static void on_state(struct dvg_sender *sender, struct dvg_bytes payload)
{
    struct dvg_state state;
    if (dvg_state_decode(payload, &state)) {
        refuse(sender, DIVERGE_EPROTO, "", 0);
        return;
    }
    sender->read_only = state.read_only;
    if (state.read_only) {
        warn_full(sender, state.text);
        if (sender->outbox.spool_usable)
            dvg_outbox_spill(&sender->outbox);
    }
}

static void on_frame(struct dvg_sender *sender, const struct dvg_frame *frame)
{
    struct dvg_ack ack;
    switch (frame->type) {
    case DVG_MESSAGE_WELCOME:
        on_welcome(sender, frame->payload);
        break;
    case DVG_MESSAGE_ACK:
        if (sender->link.state != DVG_LINK_UP || dvg_ack_decode(frame->payload, &ack) ||
            dvg_outbox_ack(&sender->outbox, ack.committed_seq))
            refuse(sender, DIVERGE_EPROTO, "bad acknowledgement", 19);
        break;
    case DVG_MESSAGE_ERROR:
        on_error(sender, frame->payload);
        break;
    case DVG_MESSAGE_STATE:
        on_state(sender, frame->payload);
        break;
    default:
        refuse(sender, DIVERGE_EPROTO, "unexpected message", 18);
        break;
    }
}

/* Frames that came before the end of the connection count: an ERROR says why it ended. */
static void receive(struct dvg_sender *sender)
{
    int end = dvg_link_read(&sender->link);
    struct dvg_frame frame;
    int rc = 0;
    while (!sender->dead && sender->link.state != DVG_LINK_DOWN &&
           (rc = dvg_link_next(&sender->link, &frame)) == 1)
        on_frame(sender, &frame);
    if (sender->dead || sender->link.state == DVG_LINK_DOWN)
        return;
    if (rc < 0)
        refuse(sender, rc, "", 0);
    else if (end)
        lose(sender);
}

/* ---- what goes out --------------------------------------------------------------------------- */

/* Definitions before the frames that use them: those known now are enough for all frames made so
 * far. */
static int fill_out(struct dvg_sender *sender)
{
    struct dvg_buffer *out = &sender->link.out;
    int rc = 1;
    while (rc == 1 && out->size < OUT_TARGET) {
        do
            rc = dvg_define_next(&sender->session->define, &sender->cursor, out);
        while (rc == 1 && out->size < OUT_TARGET);
        if (!rc)
            rc = dvg_outbox_next(&sender->outbox, out);
    }
    return rc < 0 ? rc : 0;
}

static void transmit(struct dvg_sender *sender)
{
    /* What a read-only daemon took would only wait there; it is kept here. */
    bool may_send = sender->link.state == DVG_LINK_UP && !sender->read_only;
    for (;;) {
        if (!dvg_link_has_output(&sender->link) && may_send) {
            int rc = fill_out(sender);
            if (rc && rc != DIVERGE_ENOMEM) { /* memory may come back; the frames are kept */
                refuse(sender, rc, "the spool cannot be read back", 29);
                return;
            }
        }
        if (!dvg_link_has_output(&sender->link))
            return;
        if (dvg_link_write(&sender->link)) {
            /* Its last words may say why. */
            receive(sender);
            if (!sender->dead && sender->link.state != DVG_LINK_DOWN)
                lose(sender);
            return;
        }
        if (dvg_link_has_output(&sender->link))
            return;
    }
}

static void start(struct dvg_sender *sender, uint64_t now)
{
    struct dvg_error error;
    char folder[sizeof(sender->session->config.socket_path)];
    memcpy(folder, sender->session->config.socket_path, sizeof(folder));
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    int rc = dvg_folder_check(slash ? folder : ".", false, &error);
    if (rc == DIVERGE_EPERM) {
        sender->status = rc;
        dvg_warn(sender->session, DVG_WARN_LINK, "not connecting: %s", error.text);
    }
    if (rc) {
        dvg_link_drop(&sender->link, now);
        return;
    }
    sender->hello.epoch++;
    sender->hello.next_seq = dvg_outbox_first_seq(&sender->outbox);
    dvg_link_start(&sender->link, &sender->hello, now);
}

void dvg_sender_converse(struct dvg_sender *sender, short events)
{
    if (sender->outbox.recording || sender->dead)
        return;
    uint64_t now = dvg_now_ns();
    if (sender->link.state != DVG_LINK_DOWN && (events & (POLLIN | POLLHUP | POLLERR)))
        receive(sender);
    if (!sender->dead && sender->link.state == DVG_LINK_GREETING && now >= sender->link.deadline_ns)
        lose(sender);
    if (!sender->dead && sender->link.state == DVG_LINK_DOWN && now >= sender->link.retry_ns)
        start(sender, now);
    if (!sender->dead && sender->link.state != DVG_LINK_DOWN)
        transmit(sender);
}
