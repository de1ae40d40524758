package e2e

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"

	"permd/desk"
	"permd/internal/host"
)

// deskProcess is the real desk process, started by hand so that it is a child
// of this one.
type deskProcess struct {
	r   *Rig
	cmd *exec.Cmd
}

func newDeskProcess(r *Rig) *deskProcess {
	d := &deskProcess{r: r}
	d.start()
	r.T.Cleanup(d.kill)
	return d
}

func (d *deskProcess) start() {
	d.r.T.Helper()
	d.cmd = exec.Command(d.r.Bin+"/permd", "--root", d.r.Root, desk.Command)
	d.cmd.SysProcAttr = host.DetachAttr()
	d.cmd.Stderr = os.Stderr
	if err := d.cmd.Start(); err != nil {
		d.r.T.Fatal(err)
	}
}

func (d *deskProcess) kill() {
	if d.cmd.ProcessState == nil {
		d.cmd.Process.Kill()
		d.cmd.Wait()
	}
}

// end stops the desk in order.
func (d *deskProcess) end() {
	d.r.T.Helper()
	d.cmd.Process.Signal(syscall.SIGTERM)
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Second)
	defer stop()
	defer context.AfterFunc(ctx, func() { d.cmd.Process.Kill() })()
	if err := d.cmd.Wait(); err != nil {
		d.r.T.Errorf("the desk process ended with %v", err)
	}
}
