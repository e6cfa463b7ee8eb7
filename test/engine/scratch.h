/* scratch.h - what every test of a store needs: a folder of its own, a clock, an engine on it. */
#ifndef TEST_ENGINE_SCRATCH_H
#define TEST_ENGINE_SCRATCH_H

#include "engine/engine.h"
#include "lib/clock.h"
#include "lib/folder.h"

enum { SCRATCH_PATH_BYTES = FOLDER_PATH_BYTES };
struct scratch {
    char dir[SCRATCH_PATH_BYTES];
    struct fake_clock clock;
    const struct file_faults *faults;
    uint64_t segment_bytes;
    uint64_t free_bytes_min; /* 0: none */
    uint64_t map_bytes;      /* 0: 4 GiB */
    uint32_t rest_ms;        /* 0: as the engine has it */
    bool zeros_always;       /* ahead in the log */
    void (*failed)(void *ctx,
                   const char *what); /* on_failure from the first write on; NULL: the default */
    void *failed_ctx;
    struct engine *engine;
};

/* A fresh folder below $TMPDIR or /tmp. Fails the test when that cannot be had. */
void scratch_init(struct scratch *s);
/* Closes the engine and removes the folder. */
void scratch_fini(struct scratch *s);
/* Opens and starts; a failure fails the test. */
void scratch_open(struct scratch *s);
/* For cmocka: *state is an open one. */
int scratch_setup(void **state);
int scratch_teardown(void **state);
err scratch_try(struct scratch *s, bool read_only, struct err_note *note);
void scratch_close(struct scratch *s);
/* dir/name as one path. */
void scratch_path(const struct scratch *s, const char *name, char out[2 * SCRATCH_PATH_BYTES]);
/* Paths; what is at to is replaced. */
void scratch_copy_file(const char *from, const char *to);

/* One row, waited for. */
err scratch_put(struct scratch *s, enum engine_space space, str key, str value, str bytes);
err scratch_delete(struct scratch *s, enum engine_space space, str key);
/* Reads row and blob; ERR_CORRUPT too when the hash of the blob does not fit. */
struct scratch_row {
    char value[ENGINE_VALUE_BYTES_MAX];
    size_t value_n;
    char *bytes; /* malloc; free it */
    size_t bytes_n;
};
err scratch_get(struct scratch *s, enum engine_space space, str key, struct scratch_row *out);
void scratch_row_free(struct scratch_row *r);
/* n bytes that depend on seed alone, not compressible, with no NUL. */
void scratch_bytes(uint64_t seed, char *out, size_t n);

#endif
