"""What a card can be cut into: plugin configuration, resources and labels that result, MIG geometry, what a mode gives.

    gojson, goduration      how Go programs read JSON values and durations
    pluginconfig            a device-plugin configuration as a value
    configfile, commandline a file's text, flags and environment
    verdict                 accepted, or refused at a stage, in the programs' words
    machine                 a node's cards as the driver lists them
    devices, allocate       what the device plugin advertises and answers
    mpsdaemon               what the MPS control daemon serves
    labels                  the labels of GPU feature discovery
    preferred               which devices the plugin prefers
    migname, miglayout      names of MIG profiles; which instances fit on a card together
    host, aftermath         a node as modes see it; the same node after a change, by the same model
    slots, modes, migmode,
    dra                     what a mode gives and denies on a node, or why it is impossible there
    effects                 what a change does to the other pods of the node
    pluginfile              configuration files made for a way of sharing
    migparted, migapply     mig-parted's file, and what it makes of a layout on a card
    miggenerate             the layouts that mig-parted generates by itself

This room knows configurations and machines. It reads no cluster, chooses nothing, and names no product.
"""
