package e2e

import (
	"os"
	"testing"
)

func TestMain(m *testing.M) { Main(m, os.Exit) }
