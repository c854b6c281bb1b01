CREATE TABLE meta (key TEXT PRIMARY KEY, value INTEGER NOT NULL);
CREATE TABLE job (id INTEGER PRIMARY KEY, name TEXT, user TEXT, submitted INTEGER, finished INTEGER,
    outcome TEXT, tasks INTEGER, priority INTEGER, project TEXT);
CREATE TABLE attempt (job INTEGER, node INTEGER, position INTEGER, number INTEGER, job_name TEXT,
    task_name TEXT, array_index INTEGER, user TEXT, worker TEXT, devices TEXT, placed INTEGER, started INTEGER,
    ended INTEGER, outcome TEXT, exit_code INTEGER, signal INTEGER, timeout INTEGER, detail TEXT, ran INTEGER, cpu INTEGER, peak_rss INTEGER,
    peak_gpu_memory INTEGER, PRIMARY KEY (job, node, position, number)) WITHOUT ROWID;
CREATE INDEX job_by_end ON job (finished);
CREATE INDEX job_by_user ON job (user);
CREATE INDEX attempt_by_end ON attempt (ended);
CREATE INDEX attempt_by_task ON attempt (user, job_name, task_name, ended);

INSERT INTO meta VALUES ('seq', 12);
INSERT INTO job VALUES (1, 'tries twice', 'ann', 1, 50, 'succeeded', 1, 0, NULL);
INSERT INTO job VALUES (2, 'waits long', 'bob', 2, 30, 'failed', 1, 5, 'vision');
INSERT INTO job VALUES (3, 'never began', 'bob', 4, 8, 'cancelled', 1, 0, NULL);
INSERT INTO attempt VALUES (1, 0, 0, 1, 'tries twice', 't', NULL, 'ann', 'w', '0', 2, 3, 9, 'failed', 1, NULL, NULL, NULL, 6, 0, NULL, NULL);
INSERT INTO attempt VALUES (1, 0, 0, 2, 'tries twice', 't', NULL, 'ann', 'w', '0', 10, 11, 50, 'succeeded', 0, NULL, NULL, NULL, 39, 0, NULL, NULL);
INSERT INTO attempt VALUES (2, 0, 0, 1, 'waits long', 't', NULL, 'bob', 'w', '1', 19, 20, 30, 'failed', 2, NULL, NULL, NULL, 10, 0, NULL, NULL);
