// recorder is what containernetworking/cni's `debug` plugin does, for comparison: that one is not published as a Go
// module, so it cannot be built where only the module proxy is reached. It appends what it was given to the file named
// by cniOutput, and prints prevResult.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

type config struct {
	types.NetConf
	CNIOutput string `json:"cniOutput"`
}

func record(verb string) func(*skel.CmdArgs) error {
	return func(args *skel.CmdArgs) error {
		conf := &config{}
		if err := json.Unmarshal(args.StdinData, conf); err != nil {
			return err
		}
		file, err := os.OpenFile(conf.CNIOutput, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		defer file.Close()
		fmt.Fprintf(file, "%s\nContainerID: %s\nNetns: %s\nIfName: %s\nArgs: %s\nPath: %s\nStdinData: %s\n",
			verb, args.ContainerID, args.Netns, args.IfName, args.Args, args.Path, args.StdinData)
		if verb != "ADD" {
			return nil
		}
		if conf.RawPrevResult == nil {
			return types.PrintResult(&current.Result{}, conf.CNIVersion)
		}
		if err := version.ParsePrevResult(&conf.NetConf); err != nil {
			return err
		}
		return types.PrintResult(conf.PrevResult, conf.CNIVersion)
	}
}

func main() {
	skel.PluginMainFuncs(skel.CNIFuncs{Add: record("ADD"), Del: record("DEL"), Check: record("CHECK")}, version.All, "")
}
