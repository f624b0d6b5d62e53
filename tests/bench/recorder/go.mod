module recorder

go 1.21

require github.com/containernetworking/cni v1.3.1

require (
	github.com/vishvananda/netns v0.0.4 // indirect
	golang.org/x/sys v0.23.0 // indirect
)
