// Package otlpcheck gives what "permd review export --format otlp" writes to
// the OpenTelemetry Collector's own receiver. It is a module of its own, so
// that nothing of the collector is near the module that is shipped; make test
// runs it.
package otlpcheck
