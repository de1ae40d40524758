package forwarding_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"permd/forwarding"
	"permd/forwarding/transporttest"
	"permd/heartbeat"
	"permd/internal/host"
	"permd/session"
)

func testDirs(t testing.TB) session.Dirs {
	t.Helper()
	d, err := session.Find(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Make(); err != nil {
		t.Fatal(err)
	}
	return d
}

// diskNet is nodes in a directory that are alive as far as files tell: a held
// lock and beats.
type diskNet struct {
	dirs  session.Dirs
	mu    sync.Mutex
	nodes map[string]*diskNode
}

type diskNode struct {
	lock *host.Lock
	stop context.CancelFunc
	done sync.WaitGroup
	once sync.Once
}

func (n *diskNode) end() {
	n.once.Do(func() {
		n.stop()
		n.done.Wait()
		n.lock.Release()
	})
}

func (d *diskNet) Open(t *testing.T, node string) forwarding.Transport {
	t.Helper()
	dir := d.dirs.Node(node)
	if err := host.MakeDir(string(dir)); err != nil {
		t.Fatal(err)
	}
	lock, err := host.TryLock(dir.Lock())
	if err != nil {
		t.Fatal(err)
	}
	boot, _ := host.BootID()
	beats, err := heartbeat.Create(string(dir), heartbeat.Identity{Node: node, Instance: "i1", Boot: boot}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tr, err := forwarding.OpenDisk(d.dirs, node, func(e forwarding.Event) { t.Logf("%s: %+v", node, e) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	n := &diskNode{lock: lock, stop: stop}
	release := tr.Hold()
	n.done.Go(func() {
		defer beats.Close()
		tick := time.NewTicker(heartbeat.Period)
		defer tick.Stop()
		for {
			if up, err := host.Uptime(); err == nil {
				_ = beats.Beat(up, []string{node})
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	n.done.Go(func() { _ = tr.Run(ctx) })
	d.mu.Lock()
	d.nodes[node] = n
	d.mu.Unlock()
	t.Cleanup(func() {
		n.end()
		release()
		tr.Close()
	})
	return tr
}

func (d *diskNet) Kill(t *testing.T, node string) {
	d.mu.Lock()
	n := d.nodes[node]
	d.mu.Unlock()
	n.end()
}

func TestDiskKeepsTheContract(t *testing.T) {
	transporttest.Run(t, func(t *testing.T) transporttest.Network {
		return &diskNet{dirs: testDirs(t), nodes: map[string]*diskNode{}}
	})
}

func TestMemoryKeepsTheContract(t *testing.T) {
	transporttest.Run(t, func(*testing.T) transporttest.Network { return memoryNet{new(transporttest.Memory)} })
}

type memoryNet struct{ *transporttest.Memory }

func (m memoryNet) Open(_ *testing.T, node string) forwarding.Transport { return m.Memory.Open(node) }
func (m memoryNet) Kill(_ *testing.T, node string)                      { m.Memory.Kill(node) }
