package ask

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// BenchmarkDecode reports what strictness costs: a strict decode over a plain
// one of the same bytes, in the same run.
func BenchmarkDecode(b *testing.B) {
	large := gateBody()
	large.Action.Input, _ = json.Marshal(map[string]string{"content": strings.Repeat("line of a file\n", 10_000)})
	for name, body := range map[string]Body{"command": gateBody(), "file of 150 KB": large} {
		raw := seal(b, body).Raw
		b.Run(name, func(b *testing.B) {
			var strict, plain time.Duration
			b.SetBytes(int64(len(raw)))
			for b.Loop() {
				var v Body
				start := time.Now()
				if err := Decode(raw, MaxBody, &v); err != nil {
					b.Fatal(err)
				}
				strict += time.Since(start)
				var w Body
				start = time.Now()
				if err := json.Unmarshal(raw, &w); err != nil {
					b.Fatal(err)
				}
				plain += time.Since(start)
			}
			b.ReportMetric(float64(strict)/float64(plain), "decode-x-plain")
		})
	}
}
