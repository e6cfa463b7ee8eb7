# Varnish in front of a server whose rules purge it: edge.yaml beside this file. docs/wikis.md, Caches in front.
vcl 4.1;

backend default {
  .host = "127.0.0.1";
  .port = "7231";
}

acl purgers {
  "127.0.0.1";
  "::1";
}

sub vcl_recv {
  if (req.method == "PURGE") {
    if (client.ip !~ purgers) {
      return (synth(403));
    }
    return (purge);
  }
}

sub vcl_hash {
  hash_data(req.url);
  return (lookup);
}
