/* yaml_doc.c - documents of YAML through libyaml. */
#include "codec/yaml_doc.h"

#include <string.h>

unsigned yaml_doc_line(const yaml_node_t *n)
{
    return (unsigned)n->start_mark.line + 1;
}

str yaml_doc_text(const yaml_node_t *n)
{
    return (str){ .p = (const char *)n->data.scalar.value, .n = n->data.scalar.length };
}

bool yaml_doc_is_null(const yaml_node_t *n)
{
    if (n->type != YAML_SCALAR_NODE || n->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    str s = yaml_doc_text(n);
    return s.n == 0 || str_eq(s, STR("~")) || str_eq(s, STR("null"));
}

yaml_node_t *yaml_doc_entry(yaml_document_t *doc, const yaml_node_t *n, str name)
{
    if (n == NULL || n->type != YAML_MAPPING_NODE)
        return NULL;
    for (const yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top;
         p++) {
        const yaml_node_t *key = yaml_document_get_node(doc, p->key);
        if (key->type == YAML_SCALAR_NODE && str_eq(yaml_doc_text(key), name))
            return yaml_document_get_node(doc, p->value);
    }
    return NULL;
}

/* What libyaml says is for those who know its scanner. */
static const char *plain_problem(const yaml_parser_t *p, str text)
{
    static const struct {
        const char *problem, *plain;
    } words[] = {
        { "mapping values are not allowed in this context",
          "a colon with a blank behind it within a value: put the value in quotes, or begin a new "
          "line" },
        { "could not find expected ':'", "NAME: VALUE is wanted, and there is no colon" },
        { "did not find expected key", "this line is not at the column of the lines above it" },
        { "did not find expected ',' or ']'", "a list that begins with [ does not end with ]" },
        { "did not find expected ',' or '}'", "a section that begins with { does not end with }" },
        { "did not find expected node content", "a value is missing" },
        { "found unexpected end of stream", "the file ends within quotes" },
    };
    if (p->problem == NULL)
        return "cannot be parsed";
    if (p->problem_mark.index < text.n && text.p[p->problem_mark.index] == '\t')
        return "a tab: lines are indented with blanks";
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (strcmp(p->problem, words[i].problem) == 0)
            return words[i].plain;
    return p->problem;
}

/* Where that character of the text begins; text.n: there is none. */
static size_t byte_at(str text, size_t character)
{
    size_t at = 0;
    for (; at < text.n; at++)
        if (((unsigned char)text.p[at] & 0xc0) != 0x80 && character-- == 0)
            break;
    return at;
}

/* A pattern without quotes within { } or [ ]: its own signs end it. */
static bool wants_quotes(const yaml_parser_t *p, str text)
{
    size_t at = byte_at(text, p->problem_mark.index);
    if (p->problem == NULL || at >= text.n)
        return false;
    if (strcmp(p->problem, "did not find expected key") == 0)
        return at > 0 && str_find(STR("]}"), text.p[at - 1]) < 2; /* one ended too early */
    return str_starts(str_of(p->problem), STR("did not find expected ',' or")) &&
           str_find(STR("[]{}"), text.p[at]) < 4;
}

static err parse_failed(const yaml_parser_t *p, str text, unsigned *line, struct err_note *note)
{
    bool quotes = wants_quotes(p, text);
    bool early = quotes && strcmp(p->problem, "did not find expected key") == 0;
    *line = (unsigned)p->problem_mark.line + 1;
    if (quotes)
        return err_bad(note,
                       "not YAML: %s before column %u: a value with one of [ ] { } , in it wants "
                       "quotes",
                       early ? "a { or [ ends" : plain_problem(p, text),
                       (unsigned)p->problem_mark.column + 1);
    return err_bad(note, "not YAML: %s", plain_problem(p, text));
}

/* libyaml's time and memory grow with the depth of brackets, the first with its square. */
static err check_depth(str text, unsigned *line, struct err_note *note)
{
    yaml_parser_t parser;
    yaml_event_t event;
    unsigned depth = 0;
    bool over = false;
    err why = ERR_OK;
    INVARIANT(yaml_parser_initialize(&parser) == 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    while (!over && why == ERR_OK &&
           yaml_parser_parse(&parser, &event) != 0) { /* the loader tells what is wrong */
        bool begins =
            event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        bool ends = event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        unsigned at = (unsigned)event.start_mark.line + 1;
        over = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
        depth = begins ? depth + 1 : ends && depth > 0 ? depth - 1 : depth;
        if (depth > YAML_DEPTH_MAX) {
            *line = at;
            why = err_bad(note, "nested deeper than %d", YAML_DEPTH_MAX);
        }
    }
    yaml_parser_delete(&parser);
    return why;
}

err yaml_doc_read(str text, yaml_document_t *out, unsigned *line, struct err_note *note)
{
    *line = 0;
    if (text.p == NULL)
        text = STR(""); /* libyaml asks for an address */
    err why = check_depth(text, line, note);
    if (why != ERR_OK)
        return why;
    yaml_parser_t parser;
    yaml_document_t doc, second;
    INVARIANT(yaml_parser_initialize(&parser) == 1);
    yaml_parser_set_input_string(&parser, (const unsigned char *)text.p, text.n);
    if (yaml_parser_load(&parser, &doc) == 0) {
        why = parse_failed(&parser, text, line, note);
    } else {
        if (yaml_parser_load(&parser, &second) == 0) {
            why = parse_failed(&parser, text, line, note);
        } else {
            if (yaml_document_get_root_node(&second) != NULL)
                why = err_bad(note, "more than one document");
            yaml_document_delete(&second);
        }
        if (why == ERR_OK)
            *out = doc;
        else
            yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    return why;
}
