"""Pages and a REST interface over an archive. Everything here needs the extra `serve`; import it late."""
