"""Web pages and a REST API for an archive. Everything here needs the extra `serve`; import it late."""
