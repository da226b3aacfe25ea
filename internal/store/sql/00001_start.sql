-- +goose Up

-- Who owns builds: one process that decides for them. Its lock file and socket are its own affair; they are kept here
-- so that other processes can find it.
CREATE TABLE owners (
    num     INTEGER PRIMARY KEY AUTOINCREMENT,
    id      TEXT NOT NULL UNIQUE,
    pid     INTEGER NOT NULL,
    socket  TEXT NOT NULL,
    started INTEGER NOT NULL,
    probe   BLOB NOT NULL DEFAULT x'' -- noise that is written to see whether a write is possible
);

-- AUTOINCREMENT: a number is never given twice, also after its build was pruned.
CREATE TABLE builds (
    number      INTEGER PRIMARY KEY AUTOINCREMENT,
    owner       TEXT NOT NULL,
    project     TEXT NOT NULL,
    job         TEXT NOT NULL,
    state       TEXT NOT NULL, -- '' from the moment the number is taken until the build is submitted
    reason      TEXT NOT NULL DEFAULT '',
    by          TEXT NOT NULL DEFAULT '',
    created     INTEGER NOT NULL,
    started     INTEGER NOT NULL DEFAULT 0,
    finished    INTEGER NOT NULL DEFAULT 0,
    deadline    INTEGER NOT NULL DEFAULT 0,
    total       INTEGER NOT NULL DEFAULT 0,
    atoms       TEXT NOT NULL DEFAULT '{}',
    cases       TEXT NOT NULL DEFAULT '{}',
    lower_bound INTEGER NOT NULL DEFAULT 0,
    floor       TEXT NOT NULL DEFAULT '',
    code        TEXT NOT NULL DEFAULT '', -- of an errored build: who must act
    released    INTEGER NOT NULL DEFAULT 0 -- 1: its owner need not replay it
);
CREATE INDEX builds_unfinished ON builds (number) WHERE finished = 0;
CREATE INDEX builds_held ON builds (owner) WHERE released = 0;
CREATE INDEX builds_job ON builds (project, job, number);

-- A row holds events of one stream that were written one after the other in one transaction: seq is the first one's, n
-- how many. id gives the order across streams. Streams above 0 are builds; stream -N is the fleet as owner N knows it.
CREATE TABLE events (
    id     INTEGER PRIMARY KEY,
    stream INTEGER NOT NULL,
    seq    INTEGER NOT NULL,
    n      INTEGER NOT NULL,
    data   BLOB NOT NULL,
    UNIQUE (stream, seq)
);

CREATE TABLE atoms (
    build    INTEGER NOT NULL,
    idx      INTEGER NOT NULL,
    name     TEXT NOT NULL,
    state    TEXT NOT NULL,
    reason   TEXT NOT NULL DEFAULT '',
    agent    TEXT NOT NULL DEFAULT '',
    started  INTEGER NOT NULL DEFAULT 0,
    finished INTEGER NOT NULL DEFAULT 0,
    duration INTEGER NOT NULL DEFAULT 0,
    verdict  INTEGER NOT NULL DEFAULT 0,
    attempts TEXT NOT NULL DEFAULT '', -- numbers of the attempts that were offered it, with commas
    extra    TEXT NOT NULL DEFAULT '',
    PRIMARY KEY (build, idx)
) WITHOUT ROWID;

CREATE TABLE attempts (
    build    INTEGER NOT NULL,
    number   INTEGER NOT NULL,
    id       TEXT NOT NULL,
    kind     TEXT NOT NULL,
    session  TEXT NOT NULL,
    agent    TEXT NOT NULL,
    units    TEXT NOT NULL,
    outcome  TEXT NOT NULL DEFAULT '',
    lost     INTEGER NOT NULL DEFAULT 0,
    reason   TEXT NOT NULL DEFAULT '',
    offered  INTEGER NOT NULL,
    started  INTEGER NOT NULL DEFAULT 0,
    deadline INTEGER NOT NULL DEFAULT 0,
    ended    INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (build, number)
) WITHOUT ROWID;

-- The cases that one accepted report brought. atom_key is a hash of project, job and atom: it finds an atom's history
-- without an index of names.
CREATE TABLE cases (
    build    INTEGER NOT NULL,
    atom     INTEGER NOT NULL,
    attempt  INTEGER NOT NULL,
    part     INTEGER NOT NULL,
    atom_key INTEGER NOT NULL,
    data     BLOB NOT NULL,
    PRIMARY KEY (build, atom, attempt, part)
);
CREATE INDEX cases_history ON cases (atom_key, build);

-- id gives the order in which chunks came.
CREATE TABLE logs (
    id      INTEGER PRIMARY KEY,
    build   INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    unit    INTEGER NOT NULL,
    start   INTEGER NOT NULL,
    gap     INTEGER NOT NULL,
    data    BLOB NOT NULL,
    UNIQUE (build, attempt, unit, start)
);

CREATE TABLE subjobs (
    project TEXT NOT NULL,
    job     TEXT NOT NULL,
    fixed   INTEGER NOT NULL, -- nanoseconds before the first atom of a subjob begins
    PRIMARY KEY (project, job)
) WITHOUT ROWID;

-- samples: up to 20 times 8 bytes, oldest first: seconds since 1970 and the duration in units of 10 microseconds.
CREATE TABLE durations (
    project     TEXT NOT NULL,
    job         TEXT NOT NULL,
    atom        TEXT NOT NULL,
    updated     INTEGER NOT NULL,
    samples     BLOB NOT NULL,
    never_split INTEGER NOT NULL DEFAULT 0,
    tests       BLOB,
    PRIMARY KEY (project, job, atom)
) WITHOUT ROWID;
