CREATE TABLE runs (
    id BIGINT NOT NULL,
    name TEXT NOT NULL,
    workflow TEXT,
    workflow_checksum TEXT,
    PRIMARY KEY (id)
);
CREATE TABLE sources (
    id BIGINT NOT NULL,
    label TEXT NOT NULL,
    format TEXT NOT NULL,
    path TEXT,
    assumed TEXT,
    PRIMARY KEY (id)
);
CREATE TABLE tasks (
    identity BLOB NOT NULL,
    workflow TEXT,
    name TEXT,
    command TEXT,
    PRIMARY KEY (identity)
);
CREATE INDEX tasks_name ON tasks (name);
CREATE TABLE attempts (
    id INTEGER NOT NULL,
    identity BLOB NOT NULL,
    native_id TEXT,
    source BIGINT NOT NULL,
    imported FLOAT NOT NULL,
    run BIGINT,
    task BLOB,
    number BIGINT NOT NULL,
    category TEXT,
    label TEXT,
    user TEXT,
    workflow TEXT,
    workflow_checksum TEXT,
    executable TEXT,
    host TEXT,
    submitted FLOAT,
    started FLOAT,
    ended FLOAT,
    outcome TEXT,
    exhausted TEXT,
    exit_status BIGINT,
    signal BIGINT,
    cores FLOAT,
    memory BIGINT,
    disk BIGINT,
    wall_time FLOAT,
    cpu_time FLOAT,
    processes BIGINT,
    requested_cores FLOAT,
    requested_memory BIGINT,
    requested_disk BIGINT,
    requested_wall_time FLOAT,
    allocated_cores FLOAT,
    allocated_memory BIGINT,
    allocated_disk BIGINT,
    allocated_wall_time FLOAT,
    input_bytes BIGINT,
    memory_method TEXT,
    lower_bounds TEXT,
    raw JSON,
    PRIMARY KEY (id),
    CONSTRAINT attempts_identity UNIQUE (identity),
    FOREIGN KEY(source) REFERENCES sources (id),
    FOREIGN KEY(run) REFERENCES runs (id),
    FOREIGN KEY(task) REFERENCES tasks (identity)
);
CREATE INDEX attempts_category ON attempts (category) WHERE category IS NOT NULL;
CREATE INDEX attempts_category_memory ON attempts (category, memory) WHERE memory IS NOT NULL;
CREATE INDEX attempts_disk ON attempts (disk) WHERE disk IS NOT NULL;
CREATE INDEX attempts_ended ON attempts (ended) WHERE ended IS NOT NULL;
CREATE INDEX attempts_executable ON attempts (executable) WHERE executable IS NOT NULL;
CREATE INDEX attempts_label ON attempts (label) WHERE label IS NOT NULL;
CREATE INDEX attempts_memory ON attempts (memory) WHERE memory IS NOT NULL;
CREATE INDEX attempts_run ON attempts (run) WHERE run IS NOT NULL;
CREATE INDEX attempts_source ON attempts (source);
CREATE INDEX attempts_task ON attempts (task) WHERE task IS NOT NULL;
CREATE INDEX attempts_user ON attempts (user) WHERE user IS NOT NULL;
CREATE INDEX attempts_wall_time ON attempts (wall_time) WHERE wall_time IS NOT NULL;
CREATE INDEX attempts_workflow ON attempts (workflow) WHERE workflow IS NOT NULL;
CREATE INDEX attempts_workflow_checksum ON attempts (workflow_checksum) WHERE workflow_checksum IS NOT NULL;
CREATE TABLE fields (
    attempt INTEGER NOT NULL,
    "key" TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (attempt, "key"),
    FOREIGN KEY(attempt) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE INDEX fields_key_value ON fields ("key", value);
CREATE TABLE files (
    attempt INTEGER NOT NULL,
    role TEXT NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (attempt, role, name),
    FOREIGN KEY(attempt) REFERENCES attempts (id) ON DELETE CASCADE
);
CREATE INDEX files_name ON files (name, role);
