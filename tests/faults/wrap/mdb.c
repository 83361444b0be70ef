/* The wrappers around LMDB. */
#include "tests/faults/wrap/wrap.h"

#include <lmdb.h>

/* An environment whose last commit failed half-way lets no transaction begin. */
static const MDB_env *panicked;
static bool reading; /* the last transaction that began only reads */

WRAP_CODE(mdb_dbi_open, (MDB_txn * txn, const char *name, unsigned flags, MDB_dbi *dbi),
          txn, name, flags, dbi)
WRAP_CODE(mdb_del, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), txn, dbi,
          key, data)
WRAP_CODE(mdb_get, (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data), txn, dbi,
          key, data)
WRAP_CODE(mdb_put,
          (MDB_txn * txn, MDB_dbi dbi, MDB_val *key, MDB_val *data, unsigned flags),
          txn, dbi, key, data, flags)
WRAP_CODE(mdb_cursor_get,
          (MDB_cursor * cursor, MDB_val *key, MDB_val *data, MDB_cursor_op op), cursor,
          key, data, op)
WRAP_CODE(mdb_env_open,
          (MDB_env * env, const char *path, unsigned flags, mdb_mode_t mode), env, path,
          flags, mode)
WRAP_CODE(mdb_env_get_fd, (MDB_env * env, mdb_filehandle_t *fd), env, fd)
WRAP_CODE(mdb_env_set_mapsize, (MDB_env * env, size_t size), env, size)
WRAP_CODE(mdb_env_set_maxreaders, (MDB_env * env, unsigned n), env, n)
WRAP_CODE(mdb_env_set_maxdbs, (MDB_env * env, MDB_dbi n), env, n)
WRAP_CODE(mdb_env_sync, (MDB_env * env, int force), env, force)
WRAP_CODE(mdb_reader_check, (MDB_env * env, int *dead), env, dead)
WRAP_CODE(mdb_stat, (MDB_txn * txn, MDB_dbi dbi, MDB_stat *stat), txn, dbi, stat)

/* ---- what is taken and given back ---- */

WRAPPER(int, mdb_env_create, (MDB_env * *env))
{
    const struct fault *f = fault_at(CALL_mdb_env_create);
    int rc = f ? f->code : __real_mdb_env_create(env);
    tally.envs += rc == 0;
    return rc;
}

WRAPPER(void, mdb_env_close, (MDB_env * env))
{
    at_call(CALL_mdb_env_close);
    tally.envs -= env != NULL;
    if (env == panicked)
        panicked = NULL;
    __real_mdb_env_close(env);
}

WRAPPER(int, mdb_txn_begin,
        (MDB_env * env, MDB_txn *parent, unsigned flags, MDB_txn **txn))
{
    const struct fault *f = fault_at(CALL_mdb_txn_begin);
    if (f)
        return f->code;
    if (env == panicked)
        return MDB_PANIC;
    int rc = __real_mdb_txn_begin(env, parent, flags, txn);
    tally.txns += in_lib && rc == 0;
    reading = flags & MDB_RDONLY;
    return rc;
}

WRAPPER(void, mdb_txn_abort, (MDB_txn * txn))
{
    at_call(CALL_mdb_txn_abort);
    tally.txns -= in_lib && txn;
    __real_mdb_txn_abort(txn);
}

WRAPPER(int, mdb_txn_commit, (MDB_txn * txn))
{
    bool before = tally.no_map_full;
    tally.no_map_full |= reading;
    const struct fault *f = fault_at(CALL_mdb_txn_commit);
    tally.no_map_full = before;
    tally.txns -= in_lib;
    if (!f)
        return __real_mdb_txn_commit(txn);
    if (f->effect == PANIC || f->effect == DOUBT)
        panicked = mdb_txn_env(txn);
    if (f->effect != PANIC)
        __real_mdb_txn_abort(txn);
    else
        __real_mdb_txn_commit(txn);
    return f->code;
}

WRAPPER(int, mdb_cursor_open, (MDB_txn * txn, MDB_dbi dbi, MDB_cursor **cursor))
{
    const struct fault *f = fault_at(CALL_mdb_cursor_open);
    int rc = f ? f->code : __real_mdb_cursor_open(txn, dbi, cursor);
    tally.cursors += in_lib && rc == 0;
    return rc;
}

WRAPPER(void, mdb_cursor_close, (MDB_cursor * cursor))
{
    tally.cursors -= in_lib;
    __real_mdb_cursor_close(cursor);
}
