package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"permd/ask"
	"permd/policy/paths"
)

// typical are a hundred commands of ordinary sessions.
var typical = strings.Split(strings.TrimSpace(`
git status
git status --short
git diff
git diff --stat HEAD~1
git diff --cached -- src/a.go
git log --oneline -10
git log -1 --format=%H
git show --stat HEAD
git add -A
git add src/a.go src/b.go
git commit -m 'fix: one thing'
git commit -am "docs: say so; and more"
git push origin main
git checkout -b topic
git branch --show-current
git stash list
git rev-parse --show-toplevel
git fetch origin && git rebase origin/main
git -C packages/core status --short
git blame -L 10,20 src/a.go
ls
ls -la
ls src docs
ls -la src | head -20
pwd
cat src/main.go
cat go.mod package.json
head -50 README.md
tail -n 20 log.txt
wc -l src/a.go
wc -l < go.mod
sed -n '10,20p' a.go
grep -n 'func main' src/a.go
grep -rn foo src | wc -l
grep -rniE --include='*.go' 'a|b' .
rg -n foo src
rg -n 'type [A-Z]' --type go | head -40
rg --files -g '*.ts'
find . -name '*.go' -type f
find src -name '*_test.go' | head -5
find . -maxdepth 2 -type d -not -path './.git/*'
sort a.txt | uniq -c | sort -rn | head
jq -r '.scripts' package.json
which go node
file bin/app
du -sh node_modules
go test ./...
go test ./... 2>&1 | tail -20
go test -run TestOne -count=1 ./pkg/...
go test -race -v ./policy 2>&1 | grep -E 'FAIL|ok'
go build ./cmd/x
go build ./... && go vet ./...
go vet ./...
go mod tidy
go run ./cmd/x --help
gofmt -l .
golangci-lint run ./...
npm test
npm ci
npm run lint
npm run build 2>&1 | tail -5
npm install --save-dev typescript
npx tsc --noEmit
npx eslint src --fix
yarn test --watch=false
pnpm -r build
node scripts/gen.js
python3 script.py --flag value
python3 -m pytest tests -q
python3 -c "print('it; works')"
pytest -x tests/test_a.py::test_b
pip install -r requirements.txt
ruff check .
cargo build --release
cargo test --all
cargo clippy -- -D warnings
make test
make -j4 build
make clean && make
cmake --build build -j 4
docker compose up -d
docker ps -a
kubectl get pods -n web
curl -sSL https://example.org/x -o x
curl -s http://localhost:8080/health | jq .
mkdir -p out && cp a.txt out/
rm -rf build
mv a.txt b.txt
touch src/new.go
chmod +x scripts/run.sh
cd packages/core && git status
cd src && go test ./... && cd ..
cd web; npm test
for f in a b c; do echo $f; done
for f in a.go b.go; do echo "$f"; wc -l "$f"; done
echo "$(date)" >> log.txt
ls config.yml 2>/dev/null || echo 'Not found'
timeout 120 go test ./...
TZ=UTC date +%Y-%m-%d
test -f go.mod && cat go.mod; echo "exit: $?"
`), "\n")

// ruleSet makes n rules of the kinds that people write.
func ruleSet(n int) *Policy {
	f, err := Decode("bench", ruleText(n), LayerUser)
	if err != nil {
		panic(err)
	}
	return Compile(f)
}

func ruleText(n int) []byte {
	var b strings.Builder
	for i := range n {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "[[rule]]\naction = \"allow\"\ncommand = \"tool%d run *\"\n", i)
		case 1:
			fmt.Fprintf(&b, "[[rule]]\naction = \"deny\"\ncommand = \"danger%d *\"\n", i)
		case 2:
			fmt.Fprintf(&b, "[[rule]]\naction = \"deny\"\ntool = \"read\"\npath = \"**/secret%d/**\"\n", i)
		case 3:
			fmt.Fprintf(&b, "[[rule]]\naction = \"allow\"\nserver = \"server%d\"\nname = \"get*\"\n", i)
		case 4:
			fmt.Fprintf(&b, "[[rule]]\naction = \"ask\"\ncommand = \"deploy%d --to *\"\nexcept = [{ command = \"deploy%d --to test\" }]\n", i, i)
		}
	}
	return []byte(b.String())
}

// BenchmarkDecide compares a decision with the parser alone over the same
// hundred commands, in turns, and reports the medians of the ratios.
func BenchmarkDecide(b *testing.B) {
	if len(typical) != 100 {
		b.Fatalf("%d commands", len(typical))
	}
	actions := make([]*ask.Action, len(typical))
	for i, c := range typical {
		actions[i] = bash(c)
	}
	parser := syntax.NewParser(syntax.Variant(syntax.LangBash))
	parse := func() {
		for _, c := range typical {
			if _, err := parser.Parse(strings.NewReader(c), ""); err != nil {
				b.Fatal(err)
			}
		}
	}
	policies := [2]*Policy{ruleSet(50).rebound(paths.Fixed{}, proj, home), ruleSet(1000).rebound(paths.Fixed{}, proj, home)}
	judge := func(p *Policy) {
		for _, a := range actions {
			decide(p, a)
		}
	}
	const (
		rounds = 60
		times  = 10
	)
	spent := func(f func()) float64 {
		start := time.Now()
		for range times {
			f()
		}
		return float64(time.Since(start).Nanoseconds()) / float64(times*len(typical))
	}
	var x50, x1000, both, parsed, decided []float64
	for b.Loop() {
		for range rounds {
			p, d50, d1000 := spent(parse), spent(func() { judge(policies[0]) }), spent(func() { judge(policies[1]) })
			x50, x1000, both = append(x50, d50/p), append(x1000, d1000/p), append(both, d1000/d50)
			parsed, decided = append(parsed, p), append(decided, d1000)
		}
	}
	most := 0.0
	for _, a := range actions {
		most = max(most, testing.AllocsPerRun(20, func() { decide(policies[1], a) }))
	}
	var each []float64
	for range 200 {
		for _, a := range actions {
			start := time.Now()
			decide(policies[1], a)
			each = append(each, float64(time.Since(start).Nanoseconds())/1000)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(at(x50, 0.5), "decide-x-parse-50")
	b.ReportMetric(at(x1000, 0.5), "decide-x-parse-1000")
	b.ReportMetric(at(both, 0.5), "rules-1000-x-50")
	b.ReportMetric(most, "allocs")
	b.ReportMetric(at(parsed, 0.5)/1000, "parse-us")
	b.ReportMetric(at(decided, 0.5)/1000, "decide-us")
	b.ReportMetric(at(each, 0.99), "decide-p99-us")
}

// at is the value below which the share q of all lies.
func at(all []float64, q float64) float64 {
	slices.Sort(all)
	return all[min(int(q*float64(len(all))), len(all)-1)]
}

func BenchmarkLoadRules(b *testing.B) {
	text := ruleText(1000)
	b.ReportAllocs()
	for b.Loop() {
		f, err := Decode("bench", text, LayerUser)
		if err != nil {
			b.Fatal(err)
		}
		Compile(f).rebound(paths.Fixed{}, proj, home)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "load-1000-ms")
}
