/* SPDX-License-Identifier: Apache-2.0 */
/* The class of each metadata key, from one table. Pure. */
#ifndef DAEMON_STORE_METADATA_H
#define DAEMON_STORE_METADATA_H

enum metadata_class {
    METADATA_CAUSE,   /* may change a result: versions, devices, threads, flags, seeds, argv, git */
    METADATA_CONTEXT, /* where it ran: host, paths; also keys that the table does not know */
    METADATA_VOLATILE, /* differs in every run: pid, times */
};

enum metadata_class metadata_classify(const char *key);
const char *metadata_class_name(enum metadata_class class_);

#endif
