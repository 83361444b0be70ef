/* Locks of ours before LMDB's mutexes.
 *
 * LMDB's mutexes lie in its lock file and know their owner by a thread id, which says
 * nothing across pid namespaces. If a process dies that waits for one, and the owner
 * has the same id in another namespace, the kernel takes the dead one for the owner and
 * gives the mutex away. A waiting thread cannot give up either, nor tell whom it waits
 * for. So a thread that begins a write transaction, or takes or clears a slot of
 * readers, first takes an OFD lock: then no thread ever waits for LMDB.
 *
 * The descriptor of the lock file stays open until the environment is closed: closing
 * it would drop LMDB's own locks. */
#include "lib/store/catalog/lmdb.h"

/* LMDB maps its lock file, and makes it with a hole for what it has not touched: on a
 * full disk a signal, not an error. So its space is asked for before. */
int gate_reserve(int fd)
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

static int open_lock_file(struct catalog *c, int dir, const char *name)
{
    int rc = io_hold_forks();
    if (rc)
        return rc;
    int fd = openat(dir, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    rc = fd < 0 ? errno : 0;
    if (!rc)
        io_guard_fd(&c->lock_file, fd);
    c->has_lock_file = !rc;
    io_let_forks();
    return rc;
}

int gate_open(struct catalog *c, const char *file)
{
    char name[IO_TEMP_NAME_BYTES];
    const char *base;
    int dir, rc = io_open_parent(file, &dir, &base);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "%s-lock", base);
    while ((rc = open_lock_file(c, dir, name)) == ENOENT) {
        rc = make_lock_file(dir, name, c->origin != NULL);
        if (rc && rc != EEXIST)
            break;
    }
    if (!rc)
        rc = gate_reserve(c->lock_file.fd);
    if (rc)
        gate_close(c);
    close(dir);
    return rc;
}

void gate_close(struct catalog *c)
{
    if (c->has_lock_file)
        io_unguard_fd(&c->lock_file);
    c->has_lock_file = false;
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

int gate_look(const struct catalog *c, struct lmdb_lock *l)
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

bool gate_commits(const struct catalog *c)
{
    bool locked = false;
    return c->committing ||
           (io_is_locked(c->lock_file.fd, LOCK_COMMIT, &locked) == 0 && locked);
}

/* Finds a slot with our number, the *i-th or a later one, and where it is. */
static bool find_slot(const struct catalog *c, uint32_t *i, struct lmdb_slot *s,
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

bool gate_has_slot(const struct catalog *c, uint64_t txn)
{
    struct lmdb_slot s;
    uint64_t at;
    for (uint32_t i = 0; find_slot(c, &i, &s, &at); i++)
        if (s.txn == txn)
            return true;
    return false;
}

/* A process that has slots has locked the byte of its number. */
void gate_clear_mine(const struct catalog *c)
{
    const int32_t none = 0;
    uint64_t found, at;
    struct lmdb_slot s;
    if (io_byte_lock(c->lock_file.fd, F_OFD_GETLK, F_WRLCK, (uint64_t)getpid(), 1,
                     &found) != 0 ||
        found != NOT_LOCKED)
        return;
    for (uint32_t i = 0; find_slot(c, &i, &s, &at); i++)
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
