-- SPDX-License-Identifier: Apache-2.0
-- The first schema. schema/DATABASE.md describes every table, column and blob.
-- Runs inside one transaction; PRAGMA user_version is set by the program that applies it.

-- One execution of a training job.
CREATE TABLE runs (
    id INTEGER PRIMARY KEY,
    run_id BLOB NOT NULL UNIQUE CHECK (length(run_id) = 16),
    name TEXT NOT NULL UNIQUE,
    status TEXT NOT NULL CHECK (status IN ('recording', 'complete', 'failed', 'lost')),
    world INTEGER NOT NULL CHECK (world >= 1),
    started_unix_us INTEGER NOT NULL,
    ended_unix_us INTEGER,
    pinned INTEGER NOT NULL DEFAULT 0 CHECK (pinned IN (0, 1))
);

-- Metadata as each rank said it; class is cause, context or volatile.
CREATE TABLE run_metadata (
    run INTEGER NOT NULL REFERENCES runs (id),
    key TEXT NOT NULL,
    rank INTEGER NOT NULL,
    class TEXT NOT NULL CHECK (class IN ('cause', 'context', 'volatile')),
    value TEXT NOT NULL,
    PRIMARY KEY (run, key, rank)
) WITHOUT ROWID;

-- The records of one (run, rank, process).
CREATE TABLE streams (
    id INTEGER PRIMARY KEY,
    stream_id BLOB NOT NULL UNIQUE CHECK (length(stream_id) = 16),
    run INTEGER NOT NULL REFERENCES runs (id),
    rank INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    level INTEGER NOT NULL,
    spec TEXT NOT NULL,
    fingerprint_id TEXT NOT NULL,
    client TEXT NOT NULL,
    peer_uid INTEGER NOT NULL,
    peer_pid INTEGER NOT NULL,
    committed_seq INTEGER NOT NULL,
    last_sealed INTEGER,                  -- greatest sealed segment on any tier
    outcome INTEGER,                      -- NULL until the producer said BYE
    dropped INTEGER NOT NULL DEFAULT 0,   -- records lost without a place
    opened_unix_us INTEGER NOT NULL,
    closed_unix_us INTEGER                -- NULL while connected
);
CREATE INDEX streams_run ON streams (run, rank);

-- One tier of a stream: what can be compared by chain.
CREATE TABLE tracks (
    stream INTEGER NOT NULL REFERENCES streams (id),
    tier INTEGER NOT NULL,
    start BLOB NOT NULL CHECK (length(start) = 16),
    chain BLOB NOT NULL CHECK (length(chain) = 16),
    first_segment INTEGER,
    last_segment INTEGER,
    first_gap INTEGER,                    -- first segment that lost records or was never sealed
    first_open INTEGER,                   -- first segment that was open at the last commit
    segments INTEGER NOT NULL,
    records INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    PRIMARY KEY (stream, tier)
) WITHOUT ROWID;

CREATE TABLE strings (
    id INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);

-- Where a record belongs. String columns are ids of strings; 0 is the empty string.
CREATE TABLE sites (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
    tier INTEGER NOT NULL,
    phase INTEGER NOT NULL,
    role INTEGER NOT NULL,
    slot INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    micro_step INTEGER NOT NULL,
    occurrence INTEGER NOT NULL,
    lane INTEGER NOT NULL,
    region INTEGER NOT NULL,
    scope INTEGER NOT NULL,
    op INTEGER NOT NULL,
    name INTEGER NOT NULL
);

-- Kind, dtype, shape and placement of a value. Arrays are little-endian 64-bit integers.
CREATE TABLE types (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
    identity BLOB NOT NULL CHECK (length(identity) = 16),
    label TEXT NOT NULL,
    kind INTEGER NOT NULL,
    dtype INTEGER NOT NULL,
    placement INTEGER NOT NULL,
    team INTEGER NOT NULL,                -- string: the group of ranks it is spread over
    shape BLOB NOT NULL,
    strides BLOB,
    global_shape BLOB NOT NULL,
    extents BLOB NOT NULL
);

-- Text of argument digests.
CREATE TABLE arguments (
    digest INTEGER PRIMARY KEY,
    text TEXT NOT NULL
);

-- Columns that hardly change from step to step, shared by content.
CREATE TABLE columns (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
    data BLOB NOT NULL
);

-- The ordered sites of a (segment, tier).
CREATE TABLE layouts (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE CHECK (length(digest) = 16),
    records INTEGER NOT NULL,
    data BLOB NOT NULL
);

-- The records of a (segment, tier), by content. Without their blobs, so that finding an equal chunk
-- and checking references read small pages.
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    address BLOB NOT NULL UNIQUE CHECK (length(address) = 16),
    records INTEGER NOT NULL,
    bytes INTEGER NOT NULL,               -- of the blob; 0: retention removed it
    type_column INTEGER REFERENCES columns (id),
    argument_column INTEGER REFERENCES columns (id),
    state_column INTEGER REFERENCES columns (id)
);

-- Column by column.
CREATE TABLE chunk_blobs (
    chunk INTEGER PRIMARY KEY REFERENCES chunks (id),
    data BLOB NOT NULL
);

-- What a segment has on a tier: one row.
CREATE TABLE segments (
    stream INTEGER NOT NULL REFERENCES streams (id),
    tier INTEGER NOT NULL,
    segment INTEGER NOT NULL,             -- 0 init, 2k+1 boundary k, 2k+2 step k
    flags INTEGER NOT NULL,               -- 1 sealed, 2 lost records, 4 has unread records
    records INTEGER NOT NULL,
    dropped INTEGER NOT NULL,
    layout INTEGER REFERENCES layouts (id),
    chunk INTEGER REFERENCES chunks (id),
    order_column INTEGER REFERENCES columns (id),
    producer_column INTEGER REFERENCES columns (id),
    source_column INTEGER REFERENCES columns (id),
    digest BLOB,
    chain BLOB,
    unix_us INTEGER NOT NULL,
    rows_through INTEGER,                 -- sealed rows and records of (stream, tier) up to
    records_through INTEGER,              -- and with this one; NULL while it is open
    PRIMARY KEY (stream, tier, segment)
) WITHOUT ROWID;

-- Records of segments that are still open; gone when the segment is sealed.
CREATE TABLE parts (
    id INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL REFERENCES streams (id),
    segment INTEGER NOT NULL,
    tier INTEGER NOT NULL,
    lane INTEGER NOT NULL REFERENCES strings (id),
    first INTEGER NOT NULL,
    records INTEGER NOT NULL,
    data BLOB NOT NULL,
    UNIQUE (stream, segment, tier, lane, first)
);

-- Where pairs of runs are known to differ; retention keeps the surroundings.
CREATE TABLE differences (
    run_a INTEGER NOT NULL REFERENCES runs (id),
    run_b INTEGER NOT NULL REFERENCES runs (id),
    segment INTEGER NOT NULL,
    found_unix_us INTEGER NOT NULL,
    PRIMARY KEY (run_a, run_b, segment)
) WITHOUT ROWID;

-- For people: one row a sealed or open segment, with names instead of numbers.
CREATE VIEW run_segments AS
SELECT runs.name AS run,
       streams.rank AS rank,
       CASE WHEN segments.segment = 0 THEN 'init'
            WHEN segments.segment % 2 = 1 THEN 'boundary'
            ELSE 'step' END AS place,
       CASE WHEN segments.segment = 0 THEN NULL
            ELSE (segments.segment - 1) / 2 END AS k,
       CASE segments.tier WHEN 0 THEN 'pulse' WHEN 1 THEN 'step' WHEN 2 THEN 'layer'
            WHEN 3 THEN 'op' ELSE 'evidence' END AS tier,
       segments.records AS records,
       segments.dropped AS dropped,
       segments.flags & 1 AS sealed,
       (segments.flags & 6) <> 0 AS gap,
       lower(hex(segments.digest)) AS digest,
       lower(hex(segments.chain)) AS chain
FROM segments
JOIN streams ON streams.id = segments.stream
JOIN runs ON runs.id = streams.run;

-- For people: sites with their texts.
CREATE VIEW site_texts AS
SELECT sites.id AS site, sites.tier, sites.phase, sites.role, sites.slot, sites.flags,
       sites.micro_step, sites.occurrence,
       lane.text AS lane, region.text AS region, scope.text AS scope, op.text AS op,
       name.text AS name
FROM sites
LEFT JOIN strings AS lane ON lane.id = sites.lane
LEFT JOIN strings AS region ON region.id = sites.region
LEFT JOIN strings AS scope ON scope.id = sites.scope
LEFT JOIN strings AS op ON op.id = sites.op
LEFT JOIN strings AS name ON name.id = sites.name;
