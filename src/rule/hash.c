/* hash.c - the hash of a rule: of its fields as they are written, without the order of names in a
 * section, without quotes, blanks and lines. It is the same in every process and release: items in
 * queues carry it.
 *
 * Each node becomes a sum of its own; that of a section is the sum of the sums of its pairs. A text
 * and the number that looks like it are told apart where that makes a difference: in a body. */
#include "base/hash.h"
#include "rule/rule_impl.h"

enum { HASH_TEXT = 1, HASH_PLAIN, HASH_LIST, HASH_SECTION, HASH_PAIR, HASH_DEEP };

static uint64_t mix(uint64_t kind, uint64_t a, uint64_t b)
{
    char bytes[24];
    put_be64(bytes, kind);
    put_be64(bytes + 8, a);
    put_be64(bytes + 16, b);
    return hash_of_str((str){ .p = bytes, .n = sizeof bytes }, 0);
}

static uint64_t node_hash(struct rule_reading *r, const yaml_node_t *n, unsigned depth, bool body)
{
    uint64_t sum = 0;
    if (depth == 0)
        return mix(HASH_DEEP, 0, 0); /* the readers of fields refused such a rule */
    switch (n->type) {
    case YAML_SCALAR_NODE: {
        bool plain = body && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        return mix(plain ? HASH_PLAIN : HASH_TEXT, hash_of_str(yaml_doc_text(n), 0), 0);
    }
    case YAML_SEQUENCE_NODE:
        for (const yaml_node_item_t *i = n->data.sequence.items.start;
             i < n->data.sequence.items.top; i++)
            sum = mix(HASH_LIST, sum, node_hash(r, rule_node(r, *i), depth - 1, body));
        return mix(HASH_LIST, sum, rule_items(n));
    case YAML_MAPPING_NODE:
        for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
             p++) {
            const yaml_node_t *key = rule_node(r, p->key);
            bool of_body = body || str_eq(yaml_doc_text(key), STR("body"));
            sum += mix(HASH_PAIR, hash_of_str(yaml_doc_text(key), 0),
                       node_hash(r, rule_node(r, p->value), depth - 1, of_body));
        }
        return mix(HASH_SECTION, sum, rule_pairs(n));
    case YAML_NO_NODE:
        break;
    }
    return 0;
}

uint64_t rule_hash_node(struct rule_reading *r, const yaml_node_t *n)
{
    return node_hash(r, n, YAML_DEPTH_MAX, false);
}
