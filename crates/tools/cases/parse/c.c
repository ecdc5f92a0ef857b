#include <stdio.h>
/* A pool of things. */
typedef struct pool {
    int size;
    struct item *first;
} pool_t;

#define POOL_MAX 16
enum state { IDLE, BUSY = 2 };
static int count = 0;

/**
 * Takes one.
 */
static struct item *
pool_take(pool_t *pool,
          int wanted)
{
    int local = count_items(pool->first);
    return local > wanted ? pool->first : NULL;
}

int pool_give(pool_t *pool, struct item *one);
extern int (*on_empty)(pool_t *);
