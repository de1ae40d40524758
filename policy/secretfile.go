package policy

import "strings"

// secretNames are files that hold keys and passwords, in lower case.
var secretNames = map[string]bool{
	".env": true, ".envrc": true, "id_rsa": true, "id_dsa": true, "id_ecdsa": true, "id_ed25519": true, "id_ecdsa_sk": true, "id_ed25519_sk": true,
	"credentials": true, "credentials.json": true, "credentials.yaml": true, "credentials.yml": true, "credentials.ini": true, "credentials.toml": true,
	"credentials.csv": true, "secrets.json": true, "secrets.yaml": true, "secrets.yml": true, "secrets.toml": true, "secrets.ini": true, "secrets.env": true,
	".netrc": true, "_netrc": true, ".pgpass": true, ".npmrc": true, ".pypirc": true, ".htpasswd": true, ".git-credentials": true, ".dockercfg": true,
	".my.cnf": true, "kubeconfig": true, ".vault-token": true, "shadow": true, "gshadow": true, ".boto": true, ".s3cfg": true,
}

// secretEnds are endings of such files.
var secretEnds = []string{".env", ".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".kdbx", ".ppk", ".tfstate", ".tfstate.backup", ".tfvars", ".ovpn"}

// secretDirs are directories of which every file is one.
var secretDirs = []string{"/.ssh/", "/.gnupg/", "/.aws/", "/.azure/", "/.kube/", "/.docker/", "/.password-store/", "/.config/gcloud/", "/.config/gh/"}

// templates are endings that make a name one of an example.
var templates = []string{".example", ".sample", ".template", ".dist", ".tmpl", ".defaults", ".schema", ".pub"}

// secretFile reports whether a file of this absolute name may hold a secret.
func secretFile(name string) bool {
	name = strings.ToLower(name)
	base := name[strings.LastIndexByte(name, '/')+1:]
	for _, t := range templates {
		if strings.HasSuffix(base, t) {
			return false
		}
	}
	if secretNames[base] || strings.HasPrefix(base, ".env.") ||
		strings.HasSuffix(base, ".json") && (strings.HasPrefix(base, "client_secret") || strings.HasPrefix(base, "service-account") || strings.HasPrefix(base, "service_account")) {
		return true
	}
	for _, end := range secretEnds {
		if strings.HasSuffix(base, end) {
			return true
		}
	}
	for _, dir := range secretDirs {
		if strings.Contains(name, dir) {
			return true
		}
	}
	return false
}
