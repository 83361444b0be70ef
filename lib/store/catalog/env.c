/* The catalog's LMDB environment: made, opened, closed; how its transactions begin and
 * end. Three things are settled here before the first transaction: may the catalog be
 * written, is it the file that was checked, and did a dead writer leave something?
 *
 * Locks of ours come before LMDB's mutexes. These lie in its lock file and know their
 * owner by a thread id, which says nothing across pid namespaces. If a process dies
 * that waits for one, and the owner has the same id in another namespace, the kernel
 * takes the dead one for the owner and gives the mutex away. A waiting thread cannot
 * give up either, nor tell whom it waits for. So a thread that begins a write
 * transaction, or takes or clears a slot of readers, first takes an OFD lock: then no
 * thread ever waits for LMDB.
 *
 * The descriptor of the lock file stays open until the environment is closed: closing
 * it would drop LMDB's own locks. */
#include "lib/store/catalog/lmdb.h"
#include "lib/store/catalog/file.h"

#include <sys/statvfs.h>

int catalog_fail(struct tamis_diag *diag, const char *store_path, int rc,
                 const char *doing)
{
    char file[STORE_PATH_BYTES];
    if (rc == TAMIS_ERR_REPLACED)
        return rc; /* the diag says why */
    /* The catalog was checked before LMDB opened it. */
    bool is_lock = rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH;
    if (snprintf(file, sizeof file, "%s/catalog.lmdb%s", store_path,
                 is_lock ? "-lock" : "") >= (int)sizeof file)
        memcpy(file, "...", 3);
    if (rc > 0)
        return diag_errno(diag, rc, file, doing);
    if (is_lock)
        return diag_fail(diag, TAMIS_ERR_BUSY, file,
                         "damaged, or another LMDB's; it heals when the last process "
                         "that has the store open ends");
    return diag_fail(diag, TAMIS_ERR_CATALOG, file, "%s: %s", doing, mdb_strerror(rc));
}

/* Gives LMDB's lock file the space that LMDB maps, also after a cut; an errno. LMDB
 * maps its lock file, and makes it with a hole for what it has not touched: on a full
 * disk a signal, not an error. So its space is asked for before. */
static int gate_reserve(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return errno;
    if (!S_ISREG(st.st_mode))
        return EINVAL;
    int rc = io_calls.fallocate(fd, 0, 0, LOCK_FILE_BYTES) == 0 ? 0 : errno;
    return rc == ENOSPC || rc == EDQUOT || rc == EIO ? rc : 0;
}

/* Others open it as soon as it has its name, if they know the catalog's. */
static int make_lock_file(int dir, const char *name, bool known)
{
    char temp[IO_TEMP_NAME_BYTES];
    int fd, rc = io_create_temp(dir, "catalog.lmdb", temp, &fd);
    if (rc)
        return rc;
    io_adopt(dir, ".", fd);
    rc = gate_reserve(fd);
    if (!rc)
        rc = known ? io_rename(dir, temp, name) : io_replace(dir, temp, name);
    if (rc)
        io_discard(dir, temp, fd);
    else
        close(fd);
    return rc;
}

static void gate_close(struct catalog *c)
{
    if (c->has_lock_file)
        io_unguard_fd(&c->lock_file);
    c->has_lock_file = false;
}

/* Opens LMDB's lock file, or makes it; an errno. */
static int gate_open(struct catalog *c, const char *file)
{
    char name[IO_TEMP_NAME_BYTES];
    const char *base;
    int dir, rc = io_open_parent(file, &dir, &base);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s-lock", base);
    while ((rc = io_open_guarded(dir, name, O_RDWR, &c->lock_file)) == ENOENT) {
        rc = make_lock_file(dir, name, c->origin != NULL);
        if (rc && rc != EEXIST)
            break;
    }
    c->has_lock_file = !rc;
    if (!rc)
        rc = gate_reserve(c->lock_file.fd);
    if (rc)
        gate_close(c);
    close(dir);
    return rc;
}

/* Tries once. *who: has it. A lock of a description says nothing between threads. */
static int gate_try(struct catalog *c, enum lock_name which, const char **who,
                    char text[HOLDER_TEXT_BYTES])
{
    pthread_mutex_t *threads = &c->gates[which == LOCK_SLOT];
    *who = "another thread of this process";
    if (pthread_mutex_trylock(threads) != 0)
        return TAMIS_ERR_BUSY;
    int rc = io_lock(c->lock_file.fd, which);
    if (rc) {
        *who = io_holder(c->lock_file.fd, which, text);
        pthread_mutex_unlock(threads);
    }
    return rc;
}

/* ---- what LMDB would believe ---- */

/* Reads the head of the lock file. MDB_INVALID: LMDB must not believe it. */
static int gate_look(const struct catalog *c, struct lmdb_lock *l)
{
    const uint32_t magic = 0xBEEFC0DE, format = 0x10001; /* LMDB's */
    uint64_t n_bytes;
    size_t got = 0;
    unsigned n_slots = MAX_READERS; /* those that LMDB has mapped */
    int rc = io_size(c->lock_file.fd, &n_bytes);
    if (!rc)
        rc = io_read(c->lock_file.fd, l, sizeof *l, 0, &got);
    if (rc)
        return rc;
    if (c->env)
        mdb_env_get_maxreaders(c->env, &n_slots);
    bool good = got == sizeof *l && l->magic == magic && l->format == format &&
                l->n_slots <= n_slots &&
                n_bytes >= sizeof *l + n_slots * sizeof l->slots[0];
    return good ? 0 : MDB_INVALID;
}

/* Finds a slot with our number, the *i-th or a later one, and where it is. */
static bool env_find_slot(const struct catalog *c, uint32_t *i, struct lmdb_slot *s,
                          uint64_t *at)
{
    struct lmdb_lock l;
    size_t got;
    for (bool good = gate_look(c, &l) == 0; good && *i < l.n_slots; ++*i) {
        *at = sizeof l + *i * sizeof *s;
        if (io_read(c->lock_file.fd, s, sizeof *s, *at, &got) == 0 &&
            got == sizeof *s && s->pid == getpid())
            return true;
    }
    return false;
}

/* Has this process a slot that keeps writers off the pages of this transaction? */
static bool gate_has_slot(const struct catalog *c, uint64_t txn)
{
    struct lmdb_slot s;
    uint64_t at;
    for (uint32_t i = 0; env_find_slot(c, &i, &s, &at); i++)
        if (s.txn == txn)
            return true;
    return false;
}

/* Before LMDB opens the file, with LOCK_SLOT: clears slots that a process left that
 * died and had our number. LMDB takes them for ours. A process that has slots has
 * locked the byte of its number. */
static void gate_clear_mine(const struct catalog *c)
{
    const int32_t none = 0;
    uint64_t found, at;
    struct lmdb_slot s;
    if (io_byte_lock(c->lock_file.fd, F_OFD_GETLK, F_WRLCK, (uint64_t)getpid(), 1,
                     &found) != 0 ||
        found != NOT_LOCKED)
        return;
    for (uint32_t i = 0; env_find_slot(c, &i, &s, &at); i++)
        io_write(c->lock_file.fd, &none, sizeof none,
                 at + offsetof(struct lmdb_slot, pid));
}

/* ---- entering and leaving ---- */

int gate_enter(struct catalog *c, enum lock_name which, struct io_wait *wait,
               struct tamis_diag *diag)
{
    struct io_wait forever = {.timeout_ms = 0};
    for (;;) {
        struct tamis_diag whom;
        struct lmdb_lock l;
        char text[HOLDER_TEXT_BYTES];
        const char *who;
        int rc = gate_try(c, which, &who, text);
        if (!rc) {
            rc = c->env ? gate_look(c, &l) : 0;
            if (!rc) {
                if (which == LOCK_COMMIT)
                    c->committing = true;
                return 0;
            }
            gate_leave(c, which);
            c->lock_refused = rc < 0;
            return catalog_fail(diag, c->path, rc, "locking the catalog");
        }
        if (rc > 0)
            return diag_errno(diag, rc, c->path, "locking the catalog");
        diag_fail(&whom, rc, c->path, "%s is %s the catalog", who,
                  which == LOCK_SLOT ? "opening" : "changing");
        if (io_wait_more(wait ? wait : &forever, &whom))
            continue;
        if (diag)
            *diag = whom;
        return rc;
    }
}

void gate_leave(struct catalog *c, enum lock_name which)
{
    if (which == LOCK_COMMIT)
        c->committing = false;
    io_unlock(c->lock_file.fd, which);
    pthread_mutex_unlock(&c->gates[which == LOCK_SLOT]);
}

/* ---- beginning ---- */

/* EINVAL: a mutex was destroyed, or is damaged. */
static int begin_txn(struct catalog *c, unsigned flags, MDB_txn **txn)
{
    int rc = mdb_txn_begin(c->env, NULL, flags, txn);
    c->lock_refused |= rc == EINVAL;
    return rc == EINVAL ? MDB_INVALID : rc;
}

/* Is this the newest transaction? A commit first writes the meta page, then the lock
 * file, from which LMDB's readers take the number. Between the two its writer has
 * LOCK_COMMIT, unless it was killed there, or what the lock file says is wrong. */
static bool is_newest(struct catalog *c, uint64_t number)
{
    struct lmdb_lock l;
    uint64_t written = 0;
    bool locked = false;
    if (!c->env) /* by reading: the file may have been cut */
        return catalog_file_newest(c->fd, 0, &written) == 0 && written == number;
    written = catalog_file_shows(&c->metas);
    if (written == number)
        return true;
    return written == number + 1 && gate_look(c, &l) == 0 && l.txn == number &&
           (c->committing ||
            (io_is_locked(c->lock_file.fd, LOCK_COMMIT, &locked) == 0 && locked));
}

static int begin_at_newest(struct catalog *c, MDB_txn **txn)
{
    uint64_t seen = origin_seen(c->origin);
    int n_dead, rc = begin_txn(c, MDB_RDONLY, txn);
    if (rc == MDB_READERS_FULL) {
        /* Readers that died keep their slots until someone looks. */
        mdb_reader_check(c->env, &n_dead);
        rc = begin_txn(c, MDB_RDONLY, txn);
    }
    if (rc || (mdb_txn_id(*txn) >= seen && is_newest(c, mdb_txn_id(*txn))))
        return rc;
    mdb_txn_abort(*txn);
    return TAMIS_ERR_BUSY;
}

/* A slot is taken in microseconds. If a process stops meanwhile, a reader does without.
 * EAGAIN, EACCES: LMDB could not lock its byte of this process, as one of the same
 * number in another container has it. MDB_INVALID: a mutex is damaged. */
int catalog_begin_read(struct catalog *c, MDB_txn **txn)
{
    struct io_wait briefly = {.timeout_ms = 10};
    int rc = gate_enter(c, LOCK_SLOT, &briefly, NULL);
    if (rc)
        return rc;
    rc = begin_at_newest(c, txn);
    if (rc == TAMIS_ERR_BUSY) /* a commit has ended meanwhile; now none can begin */
        rc = begin_at_newest(c, txn);
    gate_leave(c, LOCK_SLOT);
    return rc == EAGAIN || rc == EACCES || rc == MDB_READERS_FULL || rc == MDB_INVALID
               ? TAMIS_ERR_BUSY
               : rc;
}

/* Its slot may have been lost. But a page that T has is let go by T + 1 at the
 * earliest, and taken by T + 3, which begins after T + 2 has written its meta page. */
bool catalog_was_kept(struct catalog *c, MDB_txn *txn)
{
    uint64_t number = mdb_txn_id(txn);
    return catalog_file_shows(&c->metas) <= number + 1 || gate_has_slot(c, number);
}

int catalog_still_next(struct catalog *c, MDB_txn *txn, struct tamis_diag *diag)
{
    uint64_t last = mdb_txn_id(txn) - 1;
    return origin_check(c->origin, last, last, diag);
}

/* If the last writer died, LMDB clears its readers, too. */
int catalog_begin_write(struct catalog *c, MDB_txn **txn, struct tamis_diag *diag)
{
    int begun = begin_txn(c, 0, txn);
    int rc = begun ? begun : catalog_still_next(c, *txn, diag);
    if (rc && !begun)
        mdb_txn_abort(*txn);
    gate_leave(c, LOCK_SLOT);
    return rc;
}

void catalog_clear_slots(struct catalog *c)
{
    struct io_wait briefly = {.timeout_ms = 10};
    int n_dead;
    if (gate_enter(c, LOCK_SLOT, &briefly, NULL) != 0)
        return;
    mdb_reader_check(c->env, &n_dead);
    gate_leave(c, LOCK_SLOT);
}

/* A write that was cut short says nothing of why; what is left of the disk does. */
int catalog_commit(MDB_env *env, MDB_txn *txn)
{
    enum { FULL_BYTES = 65536 };
    struct statvfs fs;
    int fd, rc = mdb_txn_commit(txn);
    if (rc == EIO && mdb_env_get_fd(env, &fd) == 0 && fstatvfs(fd, &fs) == 0 &&
        (uint64_t)fs.f_bavail * fs.f_frsize < FULL_BYTES)
        return ENOSPC;
    return rc;
}

int catalog_txn_walk(struct catalog *c, MDB_txn *txn, bool writing,
                     struct tamis_diag *diag)
{
    int fd, rc = mdb_env_get_fd(c->env, &fd);
    if (rc)
        return catalog_fail(diag, c->path, rc, "walking the catalog");
    return catalog_file_walk(fd, c->path, mdb_txn_id(txn) - writing, diag);
}

bool catalog_is_at(struct catalog *c, uint64_t number)
{
    int before = io_hold_cancel();
    pthread_rwlock_rdlock(&c->map_lock);
    bool same = !c->unmapped && is_newest(c, number);
    pthread_rwlock_unlock(&c->map_lock);
    io_let_cancel(before);
    return same;
}

/* catalog_agrees() with the map's lock held, or alone. The lock file has the number of
 * the last transaction. A commit writes the file first, and then the lock file. So the
 * file is never behind a number that was read from the lock file before it, and at most
 * one commit ahead of a number that is read after it. It is never behind the numbers
 * that this process has seen. */
static int catalog_agrees_mapped(struct catalog *c, struct tamis_diag *diag)
{
    uint64_t low = origin_seen(c->origin);
    struct lmdb_lock l;
    bool mapped = c->env && !c->unmapped && gate_look(c, &l) == 0;
    if (mapped && l.txn > low)
        low = l.txn;
    int rc = origin_check(c->origin, low, UINT64_MAX, diag);
    if (rc || !mapped)
        return rc;
    uint64_t written = catalog_file_shows(&c->metas);
    if (gate_look(c, &l) == 0 && written > l.txn && written - l.txn > 1)
        rc = origin_fail_newest(c->origin, written, l.txn, diag);
    return rc;
}

int catalog_agrees(struct catalog *c, struct tamis_diag *diag)
{
    pthread_rwlock_rdlock(&c->map_lock);
    int rc = catalog_agrees_mapped(c, diag);
    pthread_rwlock_unlock(&c->map_lock);
    return rc;
}

static const size_t FIRST_MAP_BYTES = (size_t)64 << 20;
enum { MAX_DATABASES = 8 };

/* The list must not change at the first write after a crash. If the dead writer's
 * commit has reached the meta page, it is made visible and durable now. */
static int settle(struct catalog *c, struct tamis_diag *diag)
{
    struct io_wait not_at_all = {.timeout_ms = -1};
    struct lmdb_lock l;
    MDB_txn *txn;
    if (gate_look(c, &l) != 0 || catalog_file_shows(&c->metas) == l.txn ||
        gate_enter(c, LOCK_COMMIT, &not_at_all, NULL) != 0)
        return 0; /* or a living one is in the middle of its commit */
    /* LMDB mends what its owner left, if that died. */
    int rc = gate_enter(c, LOCK_SLOT, &not_at_all, NULL);
    if (!rc)
        rc = catalog_begin_write(c, &txn, diag);
    if (!rc) {
        mdb_txn_abort(txn);
        rc = mdb_env_sync(c->env, 1);
    }
    gate_leave(c, LOCK_COMMIT);
    return rc == MDB_MAP_RESIZED || rc == TAMIS_ERR_BUSY ? 0 : rc;
}

static int open_env(const char *file, unsigned flags, MDB_env **out)
{
    MDB_env *env = NULL;
    int rc = mdb_env_create(&env);
    if (!rc)
        rc = mdb_env_set_mapsize(env, FIRST_MAP_BYTES);
    if (!rc)
        rc = mdb_env_set_maxreaders(env, MAX_READERS);
    if (!rc)
        rc = mdb_env_set_maxdbs(env, MAX_DATABASES);
    if (!rc)
        rc = mdb_env_open(env, file, MDB_NOSUBDIR | MDB_NOTLS | flags, 0666);
    if (rc) {
        mdb_env_close(env);
        env = NULL;
    }
    *out = env;
    return rc;
}

/* Begins a transaction to look for the databases in. Without a slot it is one that
 * writes: no other writer overwrites the pages that it reads. */
static int env_begin(struct catalog *c, bool *writing, struct io_wait *wait,
                     MDB_txn **txn, struct tamis_diag *diag)
{
    int rc = *writing ? TAMIS_ERR_BUSY : catalog_begin_read(c, txn);
    if (rc == TAMIS_ERR_BUSY && c->read_only)
        diag_fail(diag, rc, c->path, "no slot for a reader is free");
    if (rc != TAMIS_ERR_BUSY || c->read_only)
        return rc;
    rc = gate_enter(c, LOCK_COMMIT, wait, diag);
    if (rc)
        return rc;
    *writing = true;
    rc = gate_enter(c, LOCK_SLOT, wait, diag);
    if (!rc)
        rc = catalog_begin_write(c, txn, diag);
    if (rc)
        gate_leave(c, LOCK_COMMIT);
    return rc;
}

static int find_databases(struct catalog *c, MDB_txn *txn, const struct meta *m)
{
    unsigned flags = m ? MDB_CREATE : 0;
    int rc = 0;
    for (size_t i = 0; i < CATALOG_DBS && !rc; i++)
        rc = mdb_dbi_open(txn, catalog_names[i], flags, &c->dbs[i]);
    if (!rc && m) {
        uint8_t bytes[META_BYTES];
        meta_encode(m, bytes);
        MDB_val key = catalog_val(CATALOG_META_KEY, sizeof CATALOG_META_KEY - 1);
        MDB_val data = catalog_val(bytes, sizeof bytes);
        rc = mdb_put(txn, c->dbs[CATALOG_META], &key, &data, 0);
    }
    return rc;
}

/* m: of a new catalog. Else all pages are looked at before LMDB looks for anything. *rc
 * is LMDB's code, if that failed; the result, if something else did. */
static int open_databases(struct catalog *c, const struct meta *m, struct io_wait *wait,
                          int *rc, struct tamis_diag *diag)
{
    enum { TRIES = 100 };
    int failed = EAGAIN;
    for (int i = 0; i < TRIES && failed == EAGAIN; i++) {
        MDB_txn *txn;
        bool writing = m != NULL;
        *rc = env_begin(c, &writing, wait, &txn, diag);
        /* Another process has made it larger since it was opened. */
        if (*rc == MDB_MAP_RESIZED && (*rc = mdb_env_set_mapsize(c->env, 0)) == 0)
            *rc = env_begin(c, &writing, wait, &txn, diag);
        if (*rc)
            return 0;
        diag_clear(diag);
        failed = m ? 0 : catalog_txn_walk(c, txn, writing, diag);
        *rc = failed ? 0 : find_databases(c, txn, m);
        if (failed || *rc)
            mdb_txn_abort(txn);
        else
            *rc = catalog_commit(c->env, txn);
        if (writing)
            gate_leave(c, LOCK_COMMIT);
    }
    return failed == EAGAIN ? catalog_fail(diag, c->path, failed, "walking the catalog")
                            : failed;
}

/* Before anything is read of the file, or written: is what LMDB opened the file that
 * was checked, and is LMDB's lock file the one that others see? */
static int check_env(struct catalog *c, struct tamis_diag *diag)
{
    struct stat st;
    const struct origin_file *lock = &c->origin->lock;
    int fd, rc = mdb_env_get_fd(c->env, &fd);
    if (!rc && fstat(fd, &st) != 0)
        rc = errno;
    if (!rc && !io_is_file(&st, c->device, c->inode))
        rc = ESTALE;
    if (rc)
        return catalog_fail(diag, c->path, rc, "opening the catalog");
    if (fstat(c->lock_file.fd, &st) != 0)
        return diag_errno(diag, errno, lock->path, "looking at it");
    if (lock->fd < 0 || !io_is_file(&st, lock->device, lock->inode))
        return diag_fail(diag, TAMIS_ERR_REPLACED, lock->path,
                         "removed while the store was being opened: open it again");
    rc = catalog_agrees_mapped(c, diag);
    if (rc)
        return rc;
    catalog_clear_slots(c);
    rc = c->read_only ? 0 : settle(c, diag);
    return rc ? catalog_fail(diag, c->path, rc, "opening the catalog") : 0;
}

/* While LMDB opens its lock file it may wait for a process that makes it. */
static int env_open_file(struct catalog *c, const char *file, struct io_wait *wait,
                         struct tamis_diag *diag)
{
    int rc = gate_open(c, file);
    c->lock_refused = false;
    if (rc) {
        c->read_only |= rc == EACCES || rc == EPERM || rc == EROFS;
        return catalog_fail(diag, c->path, rc, "opening the catalog's lock file");
    }
    rc = origin_take_lock_file(c->origin, diag);
    if (!rc)
        rc = gate_enter(c, LOCK_SLOT, wait, diag);
    if (rc)
        return rc;
    gate_clear_mine(c);
    rc = open_env(file, c->read_only ? MDB_RDONLY : 0, &c->env);
    if (rc == EACCES || rc == EROFS || rc == EPERM) {
        c->read_only = true;
        rc = open_env(file, MDB_RDONLY, &c->env);
    }
    gate_leave(c, LOCK_SLOT);
    c->lock_refused = rc == MDB_INVALID || rc == MDB_VERSION_MISMATCH;
    return rc ? catalog_fail(diag, c->path, rc, "opening the catalog") : 0;
}

static int env_open(struct catalog *c, const char *file, struct io_wait *wait,
                    struct tamis_diag *diag)
{
    int rc = env_open_file(c, file, wait, diag), code = 0;
    if (!rc)
        rc = check_env(c, diag);
    if (!rc)
        rc = open_databases(c, NULL, wait, &code, diag);
    if (rc || !code || code == TAMIS_ERR_BUSY) /* the diag has whom it waited for */
        return rc ? rc : code;
    if (code == MDB_NOTFOUND)
        return diag_fail(diag, TAMIS_ERR_NOT_TAMIS, file,
                         "an LMDB file, but no catalog of tamis (or one whose creation "
                         "was cut short)");
    return catalog_fail(diag, c->path, code, "opening the catalog");
}

/* The last process that closes the environment destroys its mutexes, perhaps while this
 * one opens it. Then it is opened again, which makes them anew. */
int catalog_env_open(struct catalog *c, const char *file, struct io_wait *wait,
                     struct tamis_diag *diag)
{
    enum { TRIES = 3 };
    for (int i = 1;; i++) {
        int rc = env_open(c, file, wait, diag);
        if (rc)
            catalog_env_close(c);
        if (!rc || !c->lock_refused || i == TRIES)
            return rc;
    }
}

int catalog_env_create(struct catalog *c, const char *file, const struct meta *m,
                       struct tamis_diag *diag)
{
    int fd, code = 0, rc = gate_open(c, file);
    if (!rc)
        rc = open_env(file, 0, &c->env);
    if (!rc)
        rc = mdb_env_get_fd(c->env, &fd);
    if (!rc)
        io_adopt(AT_FDCWD, c->path, fd);
    rc = rc ? catalog_fail(diag, c->path, rc, "creating the catalog")
            : open_databases(c, m, NULL, &code, diag);
    return rc || !code ? rc : catalog_fail(diag, c->path, code, "creating the catalog");
}

void catalog_env_close(struct catalog *c)
{
    struct io_wait briefly = {.timeout_ms = 100};
    /* LMDB's last user destroys the mutexes, which no process may open meanwhile. */
    bool entered = c->env && gate_enter(c, LOCK_SLOT, &briefly, NULL) == 0;
    if (c->env)
        gate_reserve(c->lock_file.fd);
    mdb_env_close(c->env);
    c->env = NULL;
    if (entered)
        gate_leave(c, LOCK_SLOT);
    origin_leave(c->origin);
    gate_close(c);
}
