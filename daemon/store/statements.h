/* SPDX-License-Identifier: Apache-2.0 */
/* Every prepared statement of the store, by name: prepared once a connection. X(NAME, sql) */
#ifndef DAEMON_STORE_STATEMENTS_H
#define DAEMON_STORE_STATEMENTS_H

/*
 * Of stream `s`: it stands for its rank. The newest that ended complete, else the newest: a
 * recording that is cut off and imported beside the whole run hides nothing of it.
 */
#define STREAM_STANDS                                                                              \
    " s.id = (SELECT id FROM streams WHERE run = s.run AND rank = s.rank"                          \
    " ORDER BY outcome IS 0 DESC, id DESC LIMIT 1)"

/*
 * When the process of stream `s` or `o` recorded, by its own clock: from its first sealed segment
 * to its last; NULL when it did not say so.
 */
#define SEGMENT_TIME(stream, order)                                                                \
    "(SELECT unix_us FROM segments WHERE stream = " stream ".id AND tier = 0 AND flags & 1"        \
    " AND unix_us > 0 ORDER BY segment" order " LIMIT 1)"
#define S_FIRST SEGMENT_TIME("s", "")
#define S_LAST SEGMENT_TIME("s", " DESC")
#define O_FIRST SEGMENT_TIME("o", "")
#define O_LAST SEGMENT_TIME("o", " DESC")
/* What divergectl wrote is a copy of other streams, with their times. */
#define BOTH_PROCESSES " s.client NOT LIKE 'divergectl %' AND o.client NOT LIKE 'divergectl %'"

#define STORE_STATEMENTS(X)                                                                        \
    X(BEGIN, "BEGIN IMMEDIATE")                                                                    \
    X(COMMIT, "COMMIT")                                                                            \
    X(DATA_VERSION, "PRAGMA data_version")                                                         \
    /* content */                                                                                  \
    X(STRING_ADD, "INSERT INTO strings (id, text) VALUES (?1, ?2)")                                \
    X(STRING_FIND, "SELECT id FROM strings WHERE text = ?1")                                       \
    X(STRING_GET, "SELECT text FROM strings WHERE id = ?1")                                        \
    X(SITE_ADD, "INSERT INTO sites (id, digest, tier, phase, role, slot, flags, micro_step,"       \
                " occurrence, lane, region, scope, op, name)"                                      \
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)")           \
    X(SITE_FIND, "SELECT id FROM sites WHERE digest = ?1")                                         \
    X(SITE_GET, "SELECT digest, flags FROM sites WHERE id = ?1")                                   \
    X(SITE_RANGE, "SELECT id, digest, tier, phase, role, slot, flags, micro_step, occurrence,"     \
                  " lane, region, scope, op, name FROM sites WHERE id BETWEEN ?1 AND ?2")          \
    X(TYPE_ADD, "INSERT INTO types (id, digest, identity, label, kind, dtype, placement, team,"    \
                " shape, strides, global_shape, extents)"                                          \
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)")                     \
    X(TYPE_FIND, "SELECT id FROM types WHERE digest = ?1")                                         \
    X(TYPE_IDENTITY, "SELECT identity FROM types WHERE id = ?1")                                   \
    X(TYPE_GET, "SELECT kind, dtype, placement, team, shape, global_shape, extents"                \
                " FROM types WHERE id = ?1")                                                       \
    X(ARGUMENT_ADD, "INSERT OR IGNORE INTO arguments (digest, text) VALUES (?1, ?2)")              \
    X(ARGUMENT_GET, "SELECT text FROM arguments WHERE digest = ?1")                                \
    X(COLUMN_ADD, "INSERT INTO columns (id, digest, data) VALUES (?1, ?2, ?3)")                    \
    X(COLUMN_FIND, "SELECT id FROM columns WHERE digest = ?1")                                     \
    X(COLUMN_GET, "SELECT data FROM columns WHERE id = ?1")                                        \
    X(LAYOUT_ADD, "INSERT INTO layouts (id, digest, records, data) VALUES (?1, ?2, ?3, ?4)")       \
    X(LAYOUT_FIND, "SELECT id FROM layouts WHERE digest = ?1")                                     \
    X(LAYOUT_GET, "SELECT digest, records, data FROM layouts WHERE id = ?1")                       \
    X(CHUNK_ADD, "INSERT INTO chunks (id, address, records, bytes, type_column, argument_column,"  \
                 " state_column) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                             \
    X(CHUNK_REFILL, "UPDATE chunks SET bytes = ?2, type_column = ?3, argument_column = ?4,"        \
                    " state_column = ?5 WHERE id = ?1")                                            \
    X(CHUNK_BLOB_ADD, "INSERT INTO chunk_blobs (chunk, data) VALUES (?1, ?2)")                     \
    X(CHUNK_FIND, "SELECT id, bytes = 0 FROM chunks WHERE address = ?1")                           \
    X(CHUNK_GET, "SELECT c.records, c.type_column, c.argument_column, c.state_column, b.data"      \
                 " FROM chunks AS c LEFT JOIN chunk_blobs AS b ON b.chunk = c.id"                  \
                 " WHERE c.id = ?1")                                                               \
    /* runs and streams */                                                                         \
    X(RUN_ADD, "INSERT INTO runs (id, run_id, name, status, world, started_unix_us)"               \
               " VALUES (?1, ?2, ?3, 'recording', ?4, ?5)")                                        \
    X(RUN_FIND, "SELECT id, name, world FROM runs WHERE run_id = ?1")                              \
    X(RUN_NAME, "SELECT 1 FROM runs WHERE name = ?1")                                              \
    X(RUN_GET, "SELECT status, world, pinned FROM runs WHERE id = ?1")                             \
    X(RUN_WORLD, "UPDATE runs SET world = ?2 WHERE id = ?1")                                       \
    X(RUN_STATUS, "UPDATE runs SET status = ?2, ended_unix_us = ?3"                                \
                  " WHERE id = ?1 AND (status <> ?2 OR (ended_unix_us IS NULL) <> (?3 IS NULL))")  \
    /* The store knows to the microsecond what a process that is there knows to the second. */     \
    X(RUN_STARTED, "UPDATE runs SET started_unix_us = ?2"                                          \
                   " WHERE id = ?1 AND started_unix_us > ?2 + 2000000")                            \
    /* A stream whose last segment ended before it was opened here was spooled or imported. */     \
    X(RUN_ENDED,                                                                                   \
      "SELECT max(CASE WHEN last < opened AND last >= started THEN last ELSE ?2 END) FROM"         \
      " (SELECT s.opened_unix_us AS opened, r.started_unix_us AS started, " S_LAST " AS last"      \
      "  FROM streams AS s JOIN runs AS r ON r.id = s.run WHERE s.run = ?1 AND" STREAM_STANDS ")") \
    X(RUN_PIN, "UPDATE runs SET pinned = ?2 WHERE id = ?1")                                        \
    X(RUN_LIST,                                                                                    \
      "SELECT r.id, r.run_id, r.name, r.status, r.started_unix_us, coalesce(r.ended_unix_us, 0),"  \
      " r.world, r.pinned,"                                                                        \
      " (SELECT count(DISTINCT rank) FROM streams WHERE run = r.id),"                              \
      " (SELECT total(t.records) FROM streams AS s JOIN tracks AS t ON t.stream = s.id"            \
      "  WHERE s.run = r.id AND" STREAM_STANDS "),"                                                \
      " (SELECT total(t.dropped) FROM streams AS s JOIN tracks AS t ON t.stream = s.id"            \
      "  WHERE s.run = r.id AND" STREAM_STANDS ")"                                                 \
      " + (SELECT total(s.dropped) FROM streams AS s"                                              \
      "  WHERE s.run = r.id AND" STREAM_STANDS "),"                                                \
      " (SELECT max(t.last_segment) FROM streams AS s JOIN tracks AS t ON t.stream = s.id"         \
      "  WHERE s.run = r.id AND" STREAM_STANDS ")"                                                 \
      " FROM runs AS r ORDER BY r.started_unix_us DESC, r.id DESC")                                \
    X(RUN_LOAD, "SELECT run_id, name, status, world FROM runs WHERE id = ?1")                      \
    X(RUN_STREAMS, "SELECT id, rank, outcome, level, dropped, spec, fingerprint_id,"               \
                   " (SELECT 1 + count(*) FROM streams AS o"                                       \
                   "  WHERE o.run = s.run AND o.rank = s.rank AND o.id <> s.id AND" BOTH_PROCESSES \
                   "  AND " O_FIRST " < " S_LAST " AND " S_FIRST " < " O_LAST ")"                  \
                   " FROM streams AS s WHERE run = ?1 AND" STREAM_STANDS " ORDER BY rank")         \
    X(RUN_METADATA, "SELECT key, rank, class, value FROM run_metadata WHERE run = ?1"              \
                    " ORDER BY key, rank")                                                         \
    X(TOTALS, "SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM chunks),"                 \
              " (SELECT count(*) FROM layouts), (SELECT count(*) FROM sites),"                     \
              " (SELECT total(records) FROM tracks)")                                              \
    /* Two look-ups in the index; min and max in one query would walk all of the track. */         \
    X(TRACK_RANGE, "SELECT (SELECT min(segment) FROM segments WHERE stream = ?1 AND tier = ?2),"   \
                   " (SELECT max(segment) FROM segments WHERE stream = ?1 AND tier = ?2)")         \
    X(RUN_TALLY,                                                                                   \
      "SELECT count(*), coalesce(sum(outcome IS NOT NULL), 0), coalesce(sum(outcome = 1), 0),"     \
      " coalesce(sum(outcome IS NULL AND closed_unix_us IS NULL), 0) FROM streams AS s"            \
      " WHERE run = ?1 AND" STREAM_STANDS)                                                         \
    X(RUN_REMOVE_SEGMENTS, "DELETE FROM segments WHERE stream IN"                                  \
                           " (SELECT id FROM streams WHERE run = ?1)")                             \
    X(RUN_REMOVE_PARTS, "DELETE FROM parts WHERE stream IN"                                        \
                        " (SELECT id FROM streams WHERE run = ?1)")                                \
    X(RUN_REMOVE_TRACKS, "DELETE FROM tracks WHERE stream IN"                                      \
                         " (SELECT id FROM streams WHERE run = ?1)")                               \
    X(RUN_REMOVE_STREAMS, "DELETE FROM streams WHERE run = ?1")                                    \
    X(RUN_REMOVE_METADATA, "DELETE FROM run_metadata WHERE run = ?1")                              \
    X(RUN_REMOVE_DIFFERENCES, "DELETE FROM differences WHERE run_a = ?1 OR run_b = ?1")            \
    X(RUN_REMOVE, "DELETE FROM runs WHERE id = ?1")                                                \
    X(METADATA_SET, "INSERT INTO run_metadata (run, key, rank, class, value)"                      \
                    " VALUES (?1, ?2, ?3, ?4, ?5)"                                                 \
                    " ON CONFLICT (run, key, rank) DO UPDATE"                                      \
                    " SET class = excluded.class, value = excluded.value")                         \
    X(DIFFERENCE_ADD, "INSERT OR IGNORE INTO differences (run_a, run_b, segment, found_unix_us)"   \
                      " VALUES (?1, ?2, ?3, ?4)")                                                  \
    X(STREAM_ADD, "INSERT INTO streams (id, stream_id, run, rank, epoch, level, spec,"             \
                  " fingerprint_id, client, peer_uid, peer_pid, committed_seq, opened_unix_us)"    \
                  " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, ?12)")                \
    X(STREAM_SET, "UPDATE streams SET epoch = ?2, committed_seq = ?3, last_sealed = ?4,"           \
                  " outcome = ?5, dropped = ?6, closed_unix_us = ?7 WHERE id = ?1")                \
    X(STREAM_FIND, "SELECT id, run, rank, epoch, committed_seq, last_sealed, outcome, dropped,"    \
                   " spec, fingerprint_id FROM streams WHERE stream_id = ?1")                      \
    X(TRACK_SET, "INSERT OR REPLACE INTO tracks (stream, tier, start, chain, first_segment,"       \
                 " last_segment, first_gap, first_open, segments, records, dropped)"               \
                 " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)")                         \
    X(TRACK_LIST, "SELECT tier, start, chain, first_segment, last_segment, first_gap, first_open," \
                  " segments, records, dropped FROM tracks WHERE stream = ?1")                     \
    /* segments */                                                                                 \
    X(SEGMENT_SET, "INSERT OR REPLACE INTO segments (stream, tier, segment, flags, records,"       \
                   " dropped, layout, chunk, order_column, producer_column, source_column,"        \
                   " digest, chain, unix_us, rows_through, records_through)"                       \
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,"    \
                   " ?16)")                                                                        \
    /* Without REPLACE SQLite needs no journal of the statement: that copies whole pages. */       \
    X(SEGMENT_ADD, "INSERT INTO segments (stream, tier, segment, flags, records,"                  \
                   " dropped, layout, chunk, order_column, producer_column, source_column,"        \
                   " digest, chain, unix_us, rows_through, records_through)"                       \
                   " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15,"    \
                   " ?16)")                                                                        \
    X(SEGMENT_AT, "SELECT s.segment, l.digest, s.digest, s.chain, s.records, s.dropped, s.flags,"  \
                  " s.rows_through, s.records_through, s.unix_us"                                  \
                  " FROM segments AS s LEFT JOIN layouts AS l ON l.id = s.layout"                  \
                  " WHERE s.stream = ?1 AND s.tier = ?2 AND s.segment <= ?3"                       \
                  " ORDER BY s.segment DESC LIMIT 1")                                              \
    X(SEGMENT_FROM, "SELECT s.segment, l.digest, s.digest, s.chain, s.records, s.dropped,"         \
                    " s.flags, s.rows_through, s.records_through, s.unix_us"                       \
                    " FROM segments AS s LEFT JOIN layouts AS l ON l.id = s.layout"                \
                    " WHERE s.stream = ?1 AND s.tier = ?2 AND s.segment >= ?3"                     \
                    " ORDER BY s.segment LIMIT 1")                                                 \
    X(SEGMENT_GET, "SELECT flags, records, layout, chunk, order_column, producer_column,"          \
                   " source_column FROM segments"                                                  \
                   " WHERE stream = ?1 AND tier = ?2 AND segment = ?3")                            \
    X(PART_ADD, "INSERT INTO parts (stream, segment, tier, lane, first, records, data)"            \
                " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)")                                            \
    X(PART_SEGMENT, "SELECT lane, first, records, data FROM parts"                                 \
                    " WHERE stream = ?1 AND segment = ?2 AND tier = ?3 ORDER BY lane, first")      \
    /* upkeep */                                                                                   \
    X(GC_SEGMENTS, "SELECT stream, tier, segment, layout, chunk, order_column, producer_column,"   \
                   " source_column FROM segments"                                                  \
                   " WHERE (stream, tier, segment) > (?1, ?2, ?3)"                                 \
                   " ORDER BY stream, tier, segment LIMIT ?4")                                     \
    X(GC_CHUNKS, "SELECT id, type_column, argument_column, state_column FROM chunks"               \
                 " WHERE id > ?1 ORDER BY id LIMIT ?2")                                            \
    X(GC_REMOVE_BLOB, "DELETE FROM chunk_blobs WHERE chunk = ?1")                                  \
    X(GC_REMOVE_CHUNK, "DELETE FROM chunks WHERE id = ?1")                                         \
    X(GC_REMOVE_LAYOUT, "DELETE FROM layouts WHERE id = ?1")                                       \
    X(GC_REMOVE_COLUMN, "DELETE FROM columns WHERE id = ?1")                                       \
    X(GC_THIN, "UPDATE chunks SET bytes = 0, type_column = NULL, argument_column = NULL,"          \
               " state_column = NULL WHERE id = ?1 AND bytes > 0")                                 \
    X(PARTS_REMOVE, "DELETE FROM parts WHERE stream = ?1 AND segment = ?2")

enum statement {
#define X(NAME, sql) STATEMENT_##NAME,
    STORE_STATEMENTS(X)
#undef X
        STATEMENT_COUNT
};

#endif
