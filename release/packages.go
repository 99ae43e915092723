package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

const (
	homepage    = "https://github.com/consul-hds/consul-hds"
	description = "Envoy health checks as Consul checks\n" +
		"One daemon per node tells the Envoys of the node what to probe, by the Health\n" +
		"Discovery Service (HDS), and keeps a Consul TTL check in step with each answer."
	documentation = "/usr/share/doc/consul-hds"
)

// writePackage writes the deb or rpm for an architecture into the folder out and
// gives its name, which is as the format has it.
func writePackage(src source, format, arch, binary, out string) (string, error) {
	packager, err := nfpm.Get(format)
	if err != nil {
		return "", err
	}
	info, err := packageInfo(src, format, arch, binary)
	if err != nil {
		return "", err
	}
	name := packager.ConventionalFileName(info)
	file, err := os.Create(filepath.Join(out, name))
	if err != nil {
		return "", err
	}
	return name, errors.Join(packager.Package(info, file), file.Close())
}

// packageInfo is the whole of a package: nfpm adds nothing from this machine.
func packageInfo(src source, format, arch, binary string) (*nfpm.Info, error) {
	contents, err := packageContents(src, format, binary)
	if err != nil {
		return nil, err
	}
	script := func(name string) string { return filepath.Join(src.root, "release/package", name) }
	info := &nfpm.Info{
		Name: "consul-hds", Arch: arch, Version: src.version, MTime: src.time,
		Section: "net", Priority: "optional", License: "MPL-2.0", Homepage: homepage,
		Maintainer: "The consul-hds authors <" + homepage + "/issues>", Description: description,
		DisableGlobbing: true,
		Overridables: nfpm.Overridables{
			Contents: contents,
			Scripts: nfpm.Scripts{
				PostInstall: script("postinstall.sh"), PreRemove: script("preremove.sh"), PostRemove: script("postremove.sh"),
			},
			Depends: dependencies(format),
			RPM:     nfpm.RPM{BuildHost: "localhost", Group: "System Environment/Daemons"},
		},
	}
	return nfpm.WithDefaults(info), nil
}

// dependencies are the packages that the scripts need, for systemd-sysusers.
func dependencies(format string) []string {
	if format == "deb" {
		return []string{"systemd | systemd-standalone-sysusers | systemd-sysusers"}
	}
	return []string{"systemd"}
}

// packageContents are the files and directories of a package.
func packageContents(src source, format, binary string) (files.Contents, error) {
	own := func(destination, name, kind string) *files.Content {
		return content(src, entry{path: destination, source: filepath.Join(src.root, name), mode: 0o644}, kind)
	}
	contents := files.Contents{
		content(src, entry{path: "/usr/bin/consul-hds", source: binary, mode: 0o755}, files.TypeFile),
		content(src, entry{path: "/etc/consul-hds.d", mode: fs.ModeDir | 0o755}, files.TypeDir),
		own("/etc/consul-hds.d/consul-hds.hcl", "release/package/consul-hds.hcl", files.TypeConfigNoReplace),
		own("/usr/lib/systemd/system/consul-hds.service", "examples/consul-hds.service", files.TypeFile),
		own("/usr/lib/sysusers.d/consul-hds.conf", "release/package/sysusers.conf", files.TypeFile),
		content(src, entry{path: documentation, mode: fs.ModeDir | 0o755}, files.TypeDir),
	}
	docs, err := documents(src.root)
	for _, doc := range docs {
		kind := documentType(format, doc)
		doc.path = documentation + "/" + doc.path
		contents = append(contents, content(src, doc, kind))
	}
	return contents, err
}

// documentType is the type of a document: rpm can leave them out at an install,
// but for the license.
func documentType(format string, doc entry) string {
	switch {
	case doc.mode.IsDir():
		return files.TypeDir
	case format == "deb":
		return files.TypeFile
	case doc.path == "LICENSE":
		return files.TypeRPMLicense
	default:
		return files.TypeRPMDoc
	}
}

// content is an entry as nfpm takes it. All files belong to root.
func content(src source, e entry, kind string) *files.Content {
	c := &files.Content{
		Destination: e.path, Source: e.source, Type: kind,
		FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: e.mode.Perm(), MTime: src.time},
	}
	if e.mode.IsDir() {
		c.Source = ""
	}
	return c
}
