/* yaml_doc.h - the one document of YAML that a text is, read by libyaml, and what faults in it are
 * called. Nodes are libyaml's and carry their lines. Pure. Thread: any. */
#ifndef CODEC_YAML_DOC_H
#define CODEC_YAML_DOC_H

#include "base/err.h"
#include "base/str.h"

#include <yaml.h>

enum { YAML_DEPTH_MAX = 32 /* of a document's brackets and columns */ };

/* text is borrowed for the call. An empty text is a document without a root. ERR_BAD: not YAML,
 * nested deeper than YAML_DEPTH_MAX, or more than one document; *line says where, 0: nowhere. Owner
 * of *out: caller, yaml_document_delete. */
MUST_CHECK err yaml_doc_read(str text, yaml_document_t *out, unsigned *line, struct err_note *note);
/* Counted from 1. */
unsigned yaml_doc_line(const yaml_node_t *n);
/* Of a scalar; borrowed from its document. */
str yaml_doc_text(const yaml_node_t *n);
/* "", ~ and null, unquoted. */
bool yaml_doc_is_null(const yaml_node_t *n);
/* What stands behind that name in a mapping; NULL: nothing, or n is no mapping. n may be NULL. */
yaml_node_t *yaml_doc_entry(yaml_document_t *doc, const yaml_node_t *n, str name);

#endif
